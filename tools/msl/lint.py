"""Checks shaders more strictly than the compilers that run them here, in place of Apple's compiler.

    PYTHONPATH=tools python -m msl.lint -I metal metal/*.metal

Rules that clang cannot know are looked for in the text; then clang (16 or newer) checks types and address spaces
(include/msl_lint.h). Apple's compiler has the last word: what it refuses and this accepts becomes a rule here.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msl import emit
from msl.kernels import ATTRIBUTE, BUILTINS, Shader, closing, parse, split_arguments
from msl.source import MslError, Source, load

INCLUDE = Path(__file__).parent / "include"
SPACE = re.compile(r"\b(device|constant|threadgroup|thread)\b")
# Attributes that can have several dimensions; all of a kernel must have the same.
SIZES = re.compile(r".*(PositionIn\w+|PerGrid|ThreadsPerThreadgroup)$")
POSITIONS = {name for name, source in BUILTINS.items() if SIZES.match(source)}
POSITIONS -= {"thread_index_in_threadgroup"}
CONTROL = {"if", "for", "while", "switch", "return", "sizeof", "decltype", "alignas", "static_assert"}
WORDS = {
    "static": "Metal has no static variables",
    "union": "the CPU and CUDA forms of vectors cannot be in a union",
    "long long": "Metal has no long long",
    "auto": "write the type: it shows the address space",
    "lambda": "lambdas need a newer Metal than we ask for",
}
CLANG_OPTIONS = [
    *("-x", "c++", "-std=c++14", "-fsyntax-only", "-ffreestanding", "-nostdinc", "-fno-exceptions", "-fno-rtti"),
    *("-ferror-limit=0", "-fno-color-diagnostics", "-Xclang", "-ast-dump", "-pedantic-errors", "-Wno-gnu"),
    *("-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Wvla"),
    *("-Wno-sign-conversion", "-Wno-implicit-int-float-conversion", "-Wno-keyword-macro", "-Wno-unknown-pragmas"),
    *("-Wno-unused-function", "-Wno-unused-parameter", "-Wno-unused-const-variable"),
    *("-Wno-undefined-inline", "-Wno-undefined-internal"),
]


def find_clang() -> str | None:
    """SWIFTLET_CLANG, or a clang++ of version 16 or newer (older ones lack vectors of bfloat)."""
    if chosen := os.environ.get("SWIFTLET_CLANG"):
        return chosen
    for name in ["clang++", *(f"clang++-{version}" for version in range(30, 15, -1))]:
        path = shutil.which(name)
        if path is None:
            continue
        version = subprocess.run([path, "-dumpversion"], capture_output=True, text=True, check=False).stdout
        if version.split(".")[0].isdigit() and int(version.split(".")[0]) >= 16:
            return path
    return None


def functions(code: str) -> Iterator[tuple[str, int, str, str]]:
    """Name, position, parameters and body of each function that is defined."""
    for match in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", code):
        end = closing(code, match.end() - 1)
        if match.group(1) in CONTROL or end < 0:
            continue
        if after := re.match(r"\s*(?:const\s*)?(?:(?:device|constant|thread|threadgroup)\s*)?\{", code[end:]):
            body = end + after.end() - 1
            yield match.group(1), match.start(), code[match.end() : end - 1], code[body : closing(code, body)]


def address_spaces(source: Source) -> Iterator[MslError]:
    for name, position, parameters, _ in functions(source.code):
        for parameter in split_arguments(parameters):
            if re.search(r"[*&]", parameter) and not SPACE.search(parameter):
                yield source.error(position, f"{name}: no address space: {' '.join(parameter.split())}")
    variable = re.compile(
        r"(?<=[;{}])\s*((?:const\s+)?(?!return\b|else\b|delete\b|using\b|typedef\b)[A-Za-z_][\w:]*(?:<[^;<>]*>)?"
        r"(?:\s+const)?\s*[*&]+\s*(?:const\s+)?[A-Za-z_]\w*\s*)(?:=|;|\[)"
    )
    for match in variable.finditer(source.code):
        if not SPACE.search(match.group(1)):
            yield source.error(match.start(1), f"no address space: {' '.join(match.group(1).split())}")


def recursion(source: Source) -> Iterator[MslError]:
    bodies = {name: (position, body) for name, position, _, body in functions(source.code)}
    calls = {
        name: {other for other in bodies if re.search(rf"(?<![.>])\b{other}\s*(?:<[^;{{}}()]*>)?\s*\(", body)}
        for name, (_, body) in bodies.items()
    }
    for name, (position, _) in bodies.items():
        reached, waiting = set[str](), list(calls[name])
        while waiting:
            callee = waiting.pop()
            if callee not in reached:
                reached.add(callee)
                waiting += calls[callee]
        if name in reached:
            yield source.error(position, f"{name} calls itself")


def words(source: Source) -> Iterator[MslError]:
    for word, message in WORDS.items():
        pattern = r"[=(,]\s*\[[^\]\[]*\]\s*\(" if word == "lambda" else rf"\b{word}\b".replace(" ", r"\s+")
        for match in re.finditer(pattern, source.code):
            yield source.error(match.start(), message)


def namespace_variables(source: Source) -> Iterator[MslError]:
    """At namespace scope, variables are in the constant address space."""
    depth, start = 0, 0
    other = re.compile(r"(using|typedef|struct|template|namespace|class|enum)\b")
    variable = re.compile(r"(?:const\s+|constexpr\s+)*[\w:<>]+\s+\w+\s*(\[.*\])?\s*(=.*)?$", re.S)
    for i, c in enumerate(source.code):
        if c in "{}":
            depth += 1 if c == "{" else -1
            start = i + 1
        elif c == ";":
            statement = source.code[start:i].strip()
            start = i + 1
            is_variable = variable.match(statement) and not other.match(statement)
            if depth == 0 and is_variable and not re.search(r"\bconstant\b", statement):
                yield source.error(i, f"a variable at namespace scope must be constant: {' '.join(statement.split())}")


def kernel_parameters(shader: Shader) -> Iterator[MslError]:
    """Types of parameters with attributes: uint or ushort, and of one dimension or all of the same."""
    for kernel in shader.kernels:
        place = f"{kernel.file}:{kernel.line}: error: kernel {kernel.name}"
        dimensions = set()
        for parameter in kernel.parameters:
            if parameter.attribute == "buffer":
                continue
            found = re.fullmatch(r"(?:const\s+)?(?:uint|ushort)([23]?)\s+\w+", parameter.declaration)
            if not found:
                yield MslError(f"{place}: {parameter.attribute} must be uint or ushort: {parameter.declaration}")
            elif parameter.attribute in POSITIONS:
                dimensions.add(found.group(1))
            elif found.group(1):
                yield MslError(f"{place}: {parameter.attribute} has one dimension: {parameter.declaration}")
        if len(dimensions) > 1:
            yield MslError(f"{place}: positions and sizes of the grid with different dimensions")


def bindings(source: Source) -> Iterator[MslError]:
    """The parser checks indices; attributes where none belong are checked here."""
    for _, position, parameters, _ in functions(source.without_comments):
        found = ATTRIBUTE.findall(parameters)
        for attribute in set(found):
            if found.count(attribute) > 1:
                yield source.error(position, f"attribute {attribute} twice")


def space_casts(syntax_tree: str) -> list[str]:
    """C casts to another address space, which clang lets pass. The tree names a line when it changes."""
    messages = []
    file, line = "", ""
    for node in syntax_tree.splitlines():
        if place := re.search(r"<(?:([\w.]+):|line:)(\d+):\d+", node):
            file, line = place.group(1) or file, place.group(2)
        if "CStyleCastExpr" in node and "<AddressSpaceConversion>" in node:
            messages.append(f"{file}:{line}: error: a cast to another address space")
        if ends := re.search(r", (?:([\w.]+):|line:)(\d+):\d+>", node):
            file, line = ends.group(1) or file, ends.group(2)
    return messages


def clang_messages(shader: Shader, clang: str) -> list[str]:
    options = [*CLANG_OPTIONS, "-I", str(INCLUDE), "-"]
    run = subprocess.run([clang, *options], input=emit.lint(shader), text=True, capture_output=True, check=False)
    messages = [line for line in run.stderr.splitlines() if re.search(r": (fatal error|error|warning):", line)]
    if run.returncode != 0 and not messages:
        messages.append(f"{shader.source.name}.metal: error: {clang}: {run.stderr.strip()}")
    return messages + space_casts(run.stdout)


def lint(path: Path, include: Path, clang: str) -> list[str]:
    """What is wrong with a shader, each with its file and line."""
    try:
        source = load(path, include)
        shader = parse(source)
    except MslError as error:
        return [str(error)]
    problems: list[MslError] = []
    for rule in (address_spaces, recursion, words, namespace_variables, bindings):
        problems += rule(source)
    problems += kernel_parameters(shader)
    return [*map(str, problems), *clang_messages(shader, clang)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="msl.lint", description="Checks Metal shaders.")
    parser.add_argument("shaders", nargs="+", type=Path)
    parser.add_argument("-I", dest="include", type=Path, required=True, help="the folder of their headers")
    options = parser.parse_args()
    clang = find_clang()
    if clang is None:
        print("no clang++ of version 16 or newer; set SWIFTLET_CLANG", file=sys.stderr)
        return 2
    problems = [line for path in options.shaders for line in lint(path, options.include, clang)]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
