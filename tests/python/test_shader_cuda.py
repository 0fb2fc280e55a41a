"""Every kernel compiles for NVIDIA. Needs the package nvidia-cuda-nvrtc, but no GPU."""

from pathlib import Path

import pytest

from msl import emit
from msl.kernels import Shader, parse
from msl.nvrtc import Pipeline, compile_cuda, find_library
from msl.source import MslError, load

METAL = Path(__file__).parents[2] / "metal"
NVRTC = find_library()
pytestmark = pytest.mark.skipif(NVRTC is None, reason="NVRTC not found (nvidia-cuda-nvrtc, SWIFTLET_NVRTC)")

# By index, as metal/kernel_args.h lists them: affine codes of 4 bits, bf16 scales, a KV cache of f16.
CONSTANTS = {0: 1, 1: 4, 2: 64, 3: 2, 4: 1, 5: 16, 6: 0, 7: 1, 8: 1, 9: 2}


def compiled(shader: Shader, kernel: str, constants: dict[int, int]) -> bytes:
    assert NVRTC is not None
    return compile_cuda(NVRTC, emit.cuda(shader), "s.metal", Pipeline(kernel, tuple(constants.items())))


@pytest.mark.parametrize("path", sorted(METAL.glob("*.metal")), ids=lambda path: path.name)
def test_every_kernel_compiles(path: Path) -> None:
    shader = parse(load(path, METAL))
    assert shader.kernels
    constants = {constant.index: CONSTANTS[constant.index] for constant in shader.constants}
    for kernel in shader.kernels:
        assert f"msl_entry_{kernel.name}".encode() in compiled(shader, kernel.name, constants)


def test_a_function_constant_that_is_not_set_is_an_error_where_it_is_used(tmp_path: Path) -> None:
    text = (
        "constant uint LIMIT [[function_constant(3)]];\n"
        "kernel void a(device uint* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = LIMIT; }\n"
        "kernel void b(device uint* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = 1; }\n"
    )
    path = tmp_path / "s.metal"
    path.write_text(text, encoding="utf-8")
    shader = parse(load(path, tmp_path))
    assert compiled(shader, "a", {3: 7})
    assert compiled(shader, "b", {})
    with pytest.raises(MslError, match="LIMIT"):
        compiled(shader, "a", {})


def test_messages_name_the_line_of_the_shader(tmp_path: Path) -> None:
    path = tmp_path / "s.metal"
    path.write_text("\n\nkernel void a(device uint* x [[buffer(0)]]) { x[0] = nothing; }\n", encoding="utf-8")
    with pytest.raises(MslError, match=r"s\.metal\(3\): error: identifier .nothing. is undefined"):
        compiled(parse(load(path, tmp_path)), "a", {})
