"""The translator and the lint refuse shaders that they do not understand or that Apple's compiler would refuse."""

from pathlib import Path

import pytest

from msl.kernels import parse
from msl.lint import find_clang, lint
from msl.source import MslError, load

METAL = Path(__file__).parents[2] / "metal"
CLANG = find_clang()
needs_clang = pytest.mark.skipif(CLANG is None, reason="no clang++ of version 16 or newer (SWIFTLET_CLANG)")

HEAD = "#include <metal_stdlib>\nusing namespace metal;\nstruct Args { uint n; };\n"
TID = "uint tid [[thread_position_in_grid]]"
BUFFERS = "device float* x [[buffer(0)]], const device half* h [[buffer(1)]], constant Args& a [[buffer(2)]]"


def kernel(body: str, before: str = "") -> str:
    return f"{HEAD}{before}\nkernel void k({BUFFERS}, {TID}) {{\n  threadgroup float t[64];\n  {body}\n}}\n"


GOOD = kernel(
    "float v[4];\n  thread float* p = v;\n  p[0] = x[tid];\n  t[tid & 63] = p[0];\n"
    "  threadgroup float* q = t;\n  const Args b = a;\n"
    "  x[tid] = q[0] + float(h[tid]) + float(b.n) + simd_sum(v[0]);",
    "constant float table[2] = {0.0f, 1.0f};\nconstant uint N [[function_constant(0)]];\n"
    "inline float f(const device float* p) { return p[0] + table[N]; }",
)

# What the translator, and so every way to run a shader, refuses: the shader, and a part of the message.
REFUSED_BY_TRANSLATOR = {
    "parameter without attribute": (
        f"{HEAD}kernel void k(device float* x [[buffer(0)]], uint tid) {{ x[tid] = 1.0f; }}",
        "s.metal:4: error: kernel k: a parameter needs exactly one attribute: uint tid",
    ),
    "pointer without address space": (
        f"{HEAD}kernel void k(float* x [[buffer(0)]], {TID}) {{ x[tid] = 1.0f; }}",
        "neither device nor constant",
    ),
    "unknown attribute": (
        f"{HEAD}kernel void k(device float* x [[buffer(0)]], uint i [[vertex_id]]) {{ x[i] = 1.0f; }}",
        "unknown attribute vertex_id",
    ),
    "index twice": (
        f"{HEAD}kernel void k(device float* x [[buffer(0)]], device float* y [[buffer(0)]], {TID}) {{ }}",
        "must be 0, 1, ..",
    ),
    "index left out": (
        f"{HEAD}kernel void k(device float* x [[buffer(1)]], {TID}) {{ }}",
        "must be 0, 1, ..",
    ),
    "arguments before a buffer": (
        f"{HEAD}kernel void k(constant Args& a [[buffer(0)]], device float* x [[buffer(1)]], {TID}) {{ }}",
        "after the last buffer",
    ),
    "two structs of arguments": (
        f"{HEAD}kernel void k(constant Args& a [[buffer(0)]], constant Args& b [[buffer(1)]], {TID}) {{ }}",
        "after the last buffer",
    ),
    "threadgroup memory of the host": (
        f"{HEAD}kernel void k(threadgroup float* t [[threadgroup(0)]], {TID}) {{ }}",
        "unknown attribute threadgroup(0)",
    ),
    "kernel with another attribute": (
        f"{HEAD}[[kernel, max_total_threads_per_threadgroup(64)]] void k(device float* x [[buffer(0)]], {TID}) {{ }}",
        "s.metal:4: error: a form of kernel or attribute that is not known",
    ),
    "kernel made by a macro": (
        f"{HEAD}#define K(n) kernel void n(device float* x [[buffer(0)]], {TID}) {{ }}\nK(a) K(b)",
        "not known",
    ),
    "two kernels of one name": (
        f"{HEAD}kernel void k({TID}) {{ }}\n"
        f"template <int N> kernel void f({TID}) {{ }}\n"
        'template [[host_name("k")]] [[kernel]] decltype(f<1>) f<1>;',
        "s.metal:6: error: two kernels are named k",
    ),
    "template that is never instantiated": (
        f"{HEAD}template <int N> kernel void f({TID}) {{ }}",
        "never instantiated",
    ),
    "instantiation of another form": (
        f'{HEAD}template <int N> kernel void f({TID}) {{ }}\ntemplate [[host_name("k")]] kernel void f<1>({TID});',
        "an instantiation must have the form",
    ),
    "instantiation of two different things": (
        f'{HEAD}template <int N> kernel void f({TID}) {{ }}\ntemplate [[host_name("k")]] kernel decltype(f<1>) f<2>;',
        "an instantiation must have the form",
    ),
    "function constant of another type": (
        f"{HEAD}constant bool B [[function_constant(0)]];",
        "function constant B must be a plain uint",
    ),
    "function constant index twice": (
        f"{HEAD}constant uint A [[function_constant(0)]];\nconstant uint B [[function_constant(0)]];",
        "its name or index is taken",
    ),
    "function constant outside of functions": (
        f"{HEAD}constant uint A [[function_constant(0)]];\nconstant uint B = A * 2;",
        "can only be used in functions",
    ),
    "threadgroup memory in a function": (
        kernel("x[tid] = f(tid);", "inline float f(uint i) { threadgroup float z[4]; z[i] = 1.0f; return z[0]; }"),
        "threadgroup memory is declared in kernels only",
    ),
    "header that does not exist": (f'{HEAD}#include "nothing.h"', 's.metal:4: error: no header "nothing.h"'),
}

# What only the lint refuses.
REFUSED_BY_LINT = {
    "pointer parameter without address space": (
        kernel("x[tid] = 1.0f;", "inline float f(const float* p) { return p[0]; }"),
        "f: no address space: const float* p",
    ),
    "pointer variable without address space": (
        kernel("float v[4]; float* p = v; x[tid] = p[0];"),
        "no address space: float* p",
    ),
    "device pointer as thread pointer": (
        kernel("x[tid] = f(x);", "inline float f(thread const float* p) { return p[0]; }"),
        "no matching function for call to 'f'",
    ),
    "threadgroup pointer as device pointer": (
        kernel("f(t);", "inline void f(device float* p) { p[0] = 1.0f; }"),
        "no matching function for call to 'f'",
    ),
    "cast to another address space": (
        kernel("thread float* p = (thread float*)x; p[0] = 1.0f;"),
        "s.metal:7: error: a cast to another address space",
    ),
    "write to arguments": (kernel("a.n = 3;"), "cannot assign"),
    "write to a const buffer": (kernel("h[0] = half(1.0f);"), "not assignable"),
    "double literal": (kernel("x[tid] = x[tid] * 2.0;"), "to 'double'"),
    "double": (kernel("double d = 1.0f; x[tid] = float(d);"), "poisoned"),
    "variable at namespace scope": (kernel("x[tid] = g;", "float g = 1.0f;"), "must be constant: float g"),
    "static variable": (kernel("static float g = 1.0f; x[tid] = g;"), "no static variables"),
    "goto": (kernel("goto out; out: x[0] = 1.0f;"), "poisoned"),
    "new": (kernel("thread float* p = new float[3];"), "poisoned"),
    "recursion": (
        kernel("x[tid] = float(f(int(tid)));", "inline int f(int i) { return i < 2 ? i : f(i - 1) + f(i - 2); }"),
        "f calls itself",
    ),
    "recursion by way of another function": (
        kernel(
            "x[tid] = float(f(int(tid)));",
            "int g(int i);\ninline int f(int i) { return g(i - 1); }\ninline int g(int i) { return i ? f(i) : 0; }",
        ),
        "f calls itself",
    ),
    "SIMD operation on 64 bits": (
        kernel("ulong s = simd_sum(ulong(tid)); x[0] = float(s);"),
        "no matching function for call to 'simd_sum'",
    ),
    "unknown function": (kernel("x[tid] = expp(x[tid]);"), "undeclared identifier 'expp'"),
    "standard library": (kernel("x[tid] = std::exp(x[tid]);"), "undeclared identifier 'std'"),
    "array of variable length": (kernel("float v[a.n]; x[tid] = v[0];"), "variable length arrays"),
    "function constant as array size": (
        kernel("float v[N]; x[tid] = v[0];", "constant uint N [[function_constant(0)]];"),
        "variable length arrays",
    ),
    "if constexpr": (kernel("if constexpr (sizeof(int) == 4) { x[tid] = 1.0f; }"), "C++17 extension"),
    "lambda": (kernel("float b = 1.0f; float c = ([](float d) { return d; })(b); x[tid] = c;"), "lambda"),
    "auto": (kernel("auto v = x[tid]; x[0] = v;"), "write the type"),
    "float as integer": (kernel("uint u = 1.5f; x[tid] = float(u);"), "implicit conversion"),
    "implicit half": (kernel("half v = x[tid]; x[tid] = float(v);"), "implicit conversion loses"),
    "too much threadgroup memory": (
        kernel("threadgroup float big[9000]; big[tid] = 1.0f; x[tid] = big[0];"),
        "32 KB at most",
    ),
    "method of an object in device memory": (
        kernel(
            "device S* s = (device S*)x; x[tid] = s->get();",
            "struct S { float v; float get() const { return v; } };",
        ),
        "cannot initialize object parameter",
    ),
    "own function of Metal's name": (
        kernel("x[tid] = saturate(x[tid]);", "inline float saturate(float v) { return v; }"),
        "ambiguous",
    ),
    "position of another type": (
        f"{HEAD}kernel void k(device float* x [[buffer(0)]], int tid [[thread_position_in_grid]]) {{ x[tid] = 1.0f; }}",
        "thread_position_in_grid must be uint or ushort: int tid",
    ),
    "positions of different dimensions": (
        f"{HEAD}kernel void k(device float* x [[buffer(0)]], uint2 g [[threadgroup_position_in_grid]], {TID}) {{ }}",
        "different dimensions",
    ),
    "lane in two dimensions": (
        f"{HEAD}kernel void k(device float* x [[buffer(0)]], uint2 lane [[thread_index_in_simdgroup]]) {{ }}",
        "has one dimension",
    ),
    "attribute twice": (
        f"{HEAD}kernel void k(device float* x [[buffer(0)]], {TID}, uint t [[thread_position_in_grid]]) {{ }}",
        "attribute thread_position_in_grid twice",
    ),
}


def write(folder: Path, text: str) -> Path:
    path = folder / "s.metal"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", REFUSED_BY_TRANSLATOR)
def test_translator_refuses(name: str, tmp_path: Path) -> None:
    text, message = REFUSED_BY_TRANSLATOR[name]
    with pytest.raises(MslError) as error:
        parse(load(write(tmp_path, text), tmp_path))
    assert message in str(error.value)


@needs_clang
@pytest.mark.parametrize("name", REFUSED_BY_LINT)
def test_lint_refuses(name: str, tmp_path: Path) -> None:
    text, message = REFUSED_BY_LINT[name]
    parse(load(write(tmp_path, text), tmp_path))  # this it does pass
    assert CLANG is not None
    problems = lint(tmp_path / "s.metal", tmp_path, CLANG)
    assert any(message in problem and problem.startswith("s.metal:") for problem in problems), problems


@needs_clang
def test_lint_accepts(tmp_path: Path) -> None:
    assert CLANG is not None
    assert lint(write(tmp_path, GOOD), tmp_path, CLANG) == []


@needs_clang
@pytest.mark.parametrize("path", sorted(METAL.glob("*.metal")), ids=lambda path: path.name)
def test_shaders_pass(path: Path) -> None:
    assert CLANG is not None
    assert lint(path, METAL, CLANG) == []


def test_messages_name_the_file_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text("#pragma once\n#include <metal_stdlib>\n[[unknown]] int x;\n", encoding="utf-8")
    (tmp_path / "b.h").write_text('#pragma once\n#include "a.h"\n', encoding="utf-8")
    shader = write(tmp_path, f'#include "b.h"\n#include "a.h"\n{HEAD}')
    with pytest.raises(MslError, match=r"^a\.h:3: error: .*\[\[unknown\]\] int x;"):
        parse(load(shader, tmp_path))
    assert load(shader, tmp_path).text.count("[[unknown]]") == 1  # included twice, there once
