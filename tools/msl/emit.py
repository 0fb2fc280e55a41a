"""Writes a shader as C++ or CUDA C++: the prelude, the edited text, and an entry for each kernel."""

import re
from pathlib import Path

from msl.kernels import BUILTINS, Edit, Kernel, Shader
from msl.source import load

INCLUDE = Path(__file__).parent / "include"


def edited(text: str, edits: list[Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def call(kernel: Kernel) -> str:
    """The expression that calls the kernel with the arguments `a`."""
    fetched = []
    for parameter in kernel.parameters:
        if parameter.by_value:
            fetched.append("msl::Arguments()")
        elif parameter.attribute == "buffer":
            fetched.append(f"msl::Buffer<{parameter.index}>()")
        else:
            fetched.append(f"msl::{BUILTINS[parameter.attribute]}()")
    return f"msl::Call<&shader::{kernel.function}>::with({', '.join(['a', *fetched])})"


def cpu(shader: Shader) -> str:
    """C++ for the emulated device: defines msl_library_NAME (cpp/backend/gpu/emulated/kernel.h)."""
    name = shader.source.name
    out = ['#include "msl_cpu.h"', "namespace {", "namespace shader {", edited(shader.source.text, shader.edits), "}"]
    out.append(f'#line 1 "{name} (generated)"')
    rows = []
    for kernel in shader.kernels:
        out.append(f"void msl_entry_{kernel.name}(const msl::Args& a) {{ {call(kernel)}; }}")
        names = ", ".join(f'"{parameter.name}"' for parameter in kernel.buffers)
        out.append(f"constexpr const char* msl_names_{kernel.name}[] = {{{names + ', ' if names else ''}nullptr}};")
        rows.append(
            f'    {{"{kernel.name}", "{kernel.file}", {kernel.line}, msl_entry_{kernel.name}, '
            f"msl_names_{kernel.name}, msl::Signature<&shader::{kernel.function}>::info}},"
        )
    constants = "".join(f"&shader::msl_constant_{constant.name}, " for constant in shader.constants)
    out += ["const msl::KernelInfo msl_kernels[] = {", *rows, "};"]
    out.append(f"msl::FunctionConstant* const msl_constants[] = {{{constants}nullptr}};")
    out.append("}  // namespace")
    out.append(f"extern const msl::Library msl_library_{name};")
    out.append(
        f'const msl::Library msl_library_{name} = {{"{name}", {{msl_kernels, {len(shader.kernels)}}}, '
        f"{{msl_constants, {len(shader.constants)}}}}};"
    )
    return "\n".join(out) + "\n"


def cuda_prelude() -> str:
    return load(INCLUDE / "msl_cuda.h", INCLUDE).text


def cuda(shader: Shader) -> str:
    """CUDA C++ for NVRTC, after cuda_prelude(). -DMSL_ENTRY_name chooses a kernel, -DMSL_CONSTANT_i=v sets a constant,
    -DMSL_THREADS=n, which need not be, limits its threadgroups."""
    out = ["#pragma nv_diag_suppress 177  // functions that this kernel does not use"]
    for constant in shader.constants:
        missing = f"function_constant_{constant.name}_is_not_set"
        out.append(f"#ifdef MSL_CONSTANT_{constant.index}")
        out.append(f"#define MSL_VALUE_{constant.index} {{ return MSL_CONSTANT_{constant.index}; }}")
        out.append("#else")
        out.append(f'extern "C" __device__ unsigned {missing}();')
        out.append(f"#define MSL_VALUE_{constant.index} {{ return {missing}(); }}")
        out.append("#endif")
    out += ["namespace shader {", edited(shader.source.text, shader.edits), "}"]
    out.append(f'#line 1 "{shader.source.name} (generated)"')
    for kernel in shader.kernels:
        out.append(f"#ifdef MSL_ENTRY_{kernel.name}")
        out.append('extern "C" __global__ void MSL_BOUNDS')
        out.append(f"msl_entry_{kernel.name}(const __grid_constant__ msl::Args a) {{ {call(kernel)}; }}")
        out.append("#endif")
    return "\n".join(out) + "\n"


def lint(shader: Shader) -> str:
    """C++ that clang only checks. Uses of the instantiations make it check their bodies."""
    copies = [
        Edit(match.end(), match.end(), f" MSL_COPIES({match.group(1)})")
        for match in re.finditer(r"\bstruct\s+(\w+)\s*\{", shader.source.code)
    ]
    out = ['#include "msl_lint.h"', edited(shader.source.text, [*shader.edits, *copies])]
    out.append(f'#line 1 "{shader.source.name} (generated)"')
    for kernel in shader.kernels:
        out.append(f"__attribute__((used)) static auto msl_use_{kernel.name} = &{kernel.function};")
    return "\n".join(out) + "\n"


def index(names: list[str]) -> str:
    """C++ that lists the translated shaders for the emulated device."""
    out = ['#include "backend/gpu/emulated/kernel.h"', "", "namespace emulated = swiftlet::gpu::emulated;"]
    out += [f"extern const emulated::Library msl_library_{name};" for name in names]
    out.append("static const emulated::Library* const libraries[] = {")
    out += [f"    &msl_library_{name}," for name in names]
    out += ["};", "std::span<const emulated::Library* const> emulated::libraries() { return ::libraries; }"]
    return "\n".join(out) + "\n"


def embedded(texts: dict[str, str], table: str) -> str:
    """C++ that holds texts by name, as the array swiftlet::gpu::TABLE of cpp/backend/gpu/embedded.h."""
    out = ['#include "backend/gpu/embedded.h"', "", "namespace swiftlet::gpu {", ""]
    out.append("static const EmbeddedText kTexts[] = {")
    for name, text in texts.items():
        if ')msl"' in text:
            raise ValueError(f'{name} contains )msl"')
        out.append(f'    {{"{name}", R"msl({text})msl"}},')
    out += ["};", "", f"std::span<const EmbeddedText> {table}() {{ return kTexts; }}", ""]
    out.append("}  // namespace swiftlet::gpu")
    return "\n".join(out) + "\n"
