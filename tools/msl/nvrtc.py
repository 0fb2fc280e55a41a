"""Compiles shaders for NVIDIA with NVRTC, which needs no GPU: a check of their CUDA form.

    PYTHONPATH=tools python -m msl.nvrtc -I metal --pipelines FILE metal/*.metal

FILE has lines `file.kernel index=value ..`, as `swiftlet_gpu_tests --pipelines FILE` writes them: what the tests ran.
NVRTC comes with the package nvidia-cuda-nvrtc, or from the folder that SWIFTLET_NVRTC names.
"""

import argparse
import ctypes
import os
import site
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from msl import emit
from msl.kernels import parse
from msl.source import MslError, load

ARCHITECTURE = "sm_80"


@dataclass(frozen=True)
class Pipeline:
    """A kernel and its function constants, by index."""

    kernel: str
    constants: tuple[tuple[int, int], ...] = ()


def find_library() -> ctypes.CDLL | None:
    folders = [Path(folder) for folder in [os.environ.get("SWIFTLET_NVRTC")] if folder]
    for packages in [*site.getsitepackages(), site.getusersitepackages()]:
        folders += Path(packages).glob("nvidia/*/lib")
    for folder in folders:
        for library in sorted(folder.glob("libnvrtc.so.*")):
            for builtins in folder.glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(library))
    return None


def compile_cuda(nvrtc: ctypes.CDLL, shader: str, name: str, pipeline: Pipeline) -> bytes:
    """The machine code of one kernel, as cuda_device makes it. Raises MslError with the compiler's messages."""
    source = emit.cuda_prelude() + shader
    options = [f"-arch={ARCHITECTURE}", "-std=c++17", "-default-device", "-fmad=false"]
    options.append(f"-DMSL_ENTRY_{pipeline.kernel}")
    options += [f"-DMSL_CONSTANT_{index}={value}u" for index, value in pipeline.constants]
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None) != 0:
        raise MslError(f"{name}: error: NVRTC makes no program of it")
    try:
        array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = nvrtc.nvrtcCompileProgram(program, len(options), array)
        size = ctypes.c_size_t()
        if failed:
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise MslError(log.value.decode())
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, code)
        return code.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def read_pipelines(path: Path) -> dict[str, list[Pipeline]]:
    """By file of metal/."""
    result: dict[str, list[Pipeline]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, *constants = line.split()
        file, kernel = name.split(".")
        pairs = tuple((int(index), int(value)) for index, value in (constant.split("=") for constant in constants))
        result.setdefault(file, []).append(Pipeline(kernel, pairs))
    return result


def pairwise_cover(pipelines: list[Pipeline]) -> list[Pipeline]:
    """Some of them, in which each kernel has every value of its constants, and every two, that it has in any."""

    def pairs(pipeline: Pipeline) -> set[tuple[object, ...]]:
        values = pipeline.constants
        return {(pipeline.kernel, *some) for n in range(3) for some in combinations(values, n)}

    chosen: list[Pipeline] = []
    missing = set[tuple[object, ...]]().union(*map(pairs, pipelines))
    while missing:
        best = max(pipelines, key=lambda pipeline: len(pairs(pipeline) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(prog="msl.nvrtc", description="Compiles Metal shaders for NVIDIA.")
    parser.add_argument("shaders", nargs="+", type=Path)
    parser.add_argument("-I", dest="include", type=Path, required=True, help="the folder of their headers")
    parser.add_argument("--pipelines", type=Path, required=True, help="what to compile")
    parser.add_argument("--all", action="store_true", help="not only enough to have every two constants together")
    options = parser.parse_args()
    nvrtc = find_library()
    if nvrtc is None:
        print("NVRTC not found: pip install nvidia-cuda-nvrtc, or set SWIFTLET_NVRTC", file=sys.stderr)
        return 2
    pipelines = read_pipelines(options.pipelines)

    def compile_one(path: Path, source: str, pipeline: Pipeline) -> str | None:
        try:
            compile_cuda(nvrtc, source, path.name, pipeline)
        except MslError as error:
            return f"{path.name}: {pipeline}: {error}"
        return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = []
        for path in options.shaders:
            source = emit.cuda(parse(load(path, options.include)))
            for pipeline in (list if options.all else pairwise_cover)(pipelines.get(path.stem, [])):
                waiting.append(pool.submit(compile_one, path, source, pipeline))
        errors = [error for error in (one.result() for one in waiting) if error]
    for error in errors:
        print(error, file=sys.stderr)
    print(f"{len(waiting)} pipelines compiled, {len(errors)} of them failed")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
