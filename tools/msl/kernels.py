"""What a shader defines: its kernels, their parameters, its function constants, and the edits that C++ needs.

Only these need rewriting; headers make the rest of a shader valid C++:

- `kernel`: an entry is generated that fetches each argument by its attribute and calls the function. Types are never
  parsed: the entry deduces them from the function's own type.
- `threadgroup T name[N];` in a kernel: the same word also qualifies pointers.
- `constant uint name [[function_constant(i)]];` and uses of the name, which become calls.
- other constants at namespace scope.

A kernel of another form than these must not be skipped: whatever is left over of `kernel`, `host_name` and `[[` is an
error.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from msl.source import MslError, Source

MAX_BUFFERS = 16
ATTRIBUTE = re.compile(r"\[\[\s*([^\[\]]*?)\s*\]\]")
# Attributes of parameters, and the classes of include/ that compute them.
BUILTINS = {
    "thread_position_in_grid": "ThreadPositionInGrid",
    "thread_position_in_threadgroup": "ThreadPositionInThreadgroup",
    "thread_index_in_threadgroup": "ThreadPositionInThreadgroup",  # threadgroups have one dimension
    "threadgroup_position_in_grid": "ThreadgroupPositionInGrid",
    "threads_per_threadgroup": "ThreadsPerThreadgroup",
    "threadgroups_per_grid": "ThreadgroupsPerGrid",
    "threads_per_grid": "ThreadsPerGrid",
    "thread_index_in_simdgroup": "ThreadIndexInSimdgroup",
    "simdgroup_index_in_threadgroup": "SimdgroupIndexInThreadgroup",
    "simdgroups_per_threadgroup": "SimdgroupsPerThreadgroup",
    "threads_per_simdgroup": "ThreadsPerSimdgroup",
}
KERNEL_WORD = r"(?:kernel\b|\[\[\s*kernel\s*\]\])"
DEFINITION = re.compile(rf"{KERNEL_WORD}\s*void\s+(\w+)\s*\(")
INSTANTIATION = re.compile(
    r'template\s*\[\[\s*host_name\s*\(\s*"(\w+)"\s*\)\s*\]\]\s*'
    rf"{KERNEL_WORD}\s*decltype\s*\((?P<function>(?P<template>\w+)\s*<.*>)\s*\)\s*(?P<again>\w+\s*<.*>)\s*$",
    re.S,
)
DECLARATORS = r"(\w+\s*(?:\[[^\]]*\]\s*)*(?:,\s*\w+\s*(?:\[[^\]]*\]\s*)*)*)"
THREADGROUP_ARRAY = re.compile(rf"threadgroup\s+(?:[\w:]+(?:\s*<[^;]*?>)?\s+)+?{DECLARATORS};")
FUNCTION_CONSTANT = re.compile(
    r"constant\s+([\w:]+)\s+(\w+)\s*\[\[\s*function_constant\s*\(\s*(\d+)\s*\)\s*\]\]\s*(;|=)"
)


@dataclass(frozen=True)
class Parameter:
    declaration: str
    attribute: str  # "buffer" or a key of BUILTINS
    index: int = -1  # of a buffer
    by_value: bool = False  # constant T&: the struct of arguments

    @property
    def name(self) -> str:
        return self.declaration.split()[-1].lstrip("*&")


@dataclass(frozen=True)
class Kernel:
    name: str  # that the host knows it by
    function: str  # what to call: name, or name<template arguments>
    parameters: list[Parameter]
    file: str
    line: int

    @property
    def buffers(self) -> list[Parameter]:
        return [p for p in self.parameters if p.attribute == "buffer" and not p.by_value]

    @property
    def takes_arguments(self) -> bool:
        return any(p.by_value for p in self.parameters)


@dataclass(frozen=True)
class FunctionConstant:
    name: str
    index: int


@dataclass(frozen=True)
class Edit:
    start: int
    end: int
    text: str


@dataclass
class Shader:
    source: Source
    kernels: list[Kernel] = field(default_factory=list)
    constants: list[FunctionConstant] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)


def closing(code: str, position: int) -> int:
    """The position just past the bracket that closes the one at `position`; -1 if none does."""
    opening = code[position]
    closer = {"(": ")", "{": "}"}[opening]
    depth = 0
    for i in range(position, len(code)):
        depth += (code[i] == opening) - (code[i] == closer)
        if depth == 0:
            return i + 1
    return -1


def split_arguments(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    last = text[start:]
    return [*parts, last] if last.strip() else parts


def statements(code: str, word: str, start: int = 0, end: int | None = None) -> Iterator[int]:
    """Where statements begin with that word."""
    for match in re.compile(rf"\b{word}\b").finditer(code, start, len(code) if end is None else end):
        before = code[: match.start()].rstrip()
        if not before or before[-1] in ";{}":
            yield match.start()


def parse_parameter(source: Source, position: int, kernel: str, text: str) -> Parameter:
    """One parameter of a kernel, by the convention of cpp/backend/gpu/device.h."""

    def wrong(message: str) -> MslError:
        return source.error(position, f"kernel {kernel}: {message}: {' '.join(text.split())}")

    attributes = ATTRIBUTE.findall(text)
    declaration = " ".join(ATTRIBUTE.sub("", text).split())
    if len(attributes) != 1:
        raise wrong("a parameter needs exactly one attribute")
    if attributes[0] in BUILTINS:
        return Parameter(declaration, attributes[0])
    buffer = re.fullmatch(r"buffer\s*\(\s*(\d+)\s*\)", attributes[0])
    if not buffer:
        raise wrong(f"unknown attribute {attributes[0]}")
    space = re.search(r"\b(device|constant)\b", declaration)
    if not space:
        raise wrong("neither device nor constant")
    if "&" not in declaration and "*" not in declaration:
        raise wrong("a buffer is a pointer, or a reference to the struct of arguments")
    if "&" in declaration and space.group(1) != "constant":
        raise wrong("only constant references are supported")
    return Parameter(declaration, "buffer", int(buffer.group(1)), by_value="&" in declaration)


def parse_parameters(source: Source, position: int, kernel: str, text: str) -> list[Parameter]:
    parameters = []
    for part in split_arguments(text):
        parameters.append(parse_parameter(source, source.code.index(part, position), kernel, part))
    bound = [p for p in parameters if p.attribute == "buffer"]
    if [p.index for p in bound] != list(range(len(bound))):
        raise source.error(position, f"kernel {kernel}: the indices of its buffers must be 0, 1, .. in this order")
    if any(p.by_value for p in bound[:-1]):
        raise source.error(position, f"kernel {kernel}: one struct of arguments, after the last buffer")
    if len(bound) > MAX_BUFFERS:
        raise source.error(position, f"kernel {kernel}: more than {MAX_BUFFERS} buffers")
    return parameters


class Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.code = source.code
        self.shader = Shader(source)
        self.functions: dict[str, list[Parameter]] = {}
        self.templates: dict[str, int] = {}  # and where they are
        self.handled: list[tuple[int, int]] = []  # ranges whose attributes and kernel words are understood
        self.bodies: list[tuple[int, int]] = []  # of kernels

    def edit(self, start: int, end: int, text: str) -> None:
        self.shader.edits.append(Edit(start, end, text))

    def blank(self, start: int, end: int) -> None:
        self.edit(start, end, re.sub(r"[^\n]", " ", self.source.text[start:end]))

    def parse(self) -> Shader:
        self.metal_includes()
        self.definitions()
        self.instantiations()
        self.function_constants()
        self.namespace_constants()
        self.threadgroup_memory()
        self.nothing_left_over()
        return self.shader

    def metal_includes(self) -> None:
        for match in re.finditer(r"^[ \t]*#[ \t]*include[ \t]*<metal_\w+>", self.source.without_comments, re.M):
            self.blank(match.start(), match.end())

    def add_kernel(self, name: str, function: str, parameters: list[Parameter], position: int) -> None:
        if any(kernel.name == name for kernel in self.shader.kernels):
            raise self.source.error(position, f"two kernels are named {name}")
        self.shader.kernels.append(Kernel(name, function, parameters, *self.source.place(position)))

    def definitions(self) -> None:
        for match in DEFINITION.finditer(self.code):
            name, left = match.group(1), match.end() - 1
            right = closing(self.code, left)
            body = self.code.find("{", right)
            if right < 0 or body < 0 or self.code[right:body].strip():
                raise self.source.error(match.start(), f"kernel {name}: not a definition")
            end = closing(self.code, body)
            if end < 0:
                raise self.source.error(match.start(), f"kernel {name}: its body is not closed")
            if name in self.functions:
                raise self.source.error(match.start(), f"two kernel functions are named {name}")
            self.functions[name] = parse_parameters(self.source, left, name, self.code[left + 1 : right - 1])
            self.bodies.append((body, end))
            for attribute in ATTRIBUTE.finditer(self.code, left, right):
                self.blank(attribute.start(), attribute.end())
            self.edit(match.start(), self.code.index("void", match.start()), "MSL_KERNEL ")
            self.handled.append((match.start(), right))
            if re.search(r"\btemplate\s*<[^;{}]*>\s*$", self.code[: match.start()]):
                self.templates[name] = match.start()
            else:
                self.add_kernel(name, name, self.functions[name], match.start())

    def instantiations(self) -> None:
        used = set()
        for match in re.finditer(r"\btemplate\s*\[\[\s*host_name\b", self.code):
            end = self.code.find(";", match.end())
            text = self.source.text[match.start() : end]
            found = INSTANTIATION.match(text)
            if end < 0 or not found or "".join(found["function"].split()) != "".join(found["again"].split()):
                form = 'template [[host_name("n")]] [[kernel]] decltype(f<..>) f<..>;'
                raise self.source.error(match.start(), f"an instantiation must have the form {form}")
            if found["template"] not in self.templates:
                raise self.source.error(match.start(), f"{found['template']} is not a kernel template")
            used.add(found["template"])
            parameters = self.functions[found["template"]]
            self.add_kernel(found.group(1), " ".join(found["function"].split()), parameters, match.start())
            self.blank(match.start(), end + 1)
            self.handled.append((match.start(), end))
        for name, position in self.templates.items():
            if name not in used:
                raise self.source.error(position, f"kernel template {name} is never instantiated")

    def function_constants(self) -> None:
        for match in FUNCTION_CONSTANT.finditer(self.code):
            kind, name, index, end = match.groups()
            if kind != "uint" or end != ";":
                raise self.source.error(match.start(), f"function constant {name} must be a plain uint")
            if any(name == c.name or int(index) == c.index for c in self.shader.constants):
                raise self.source.error(match.start(), f"function constant {name}: its name or index is taken")
            self.shader.constants.append(FunctionConstant(name, int(index)))
            self.edit(match.start(), match.end(), f"MSL_FUNCTION_CONSTANT({name}, {index})")
            self.handled.append((match.start(), match.end()))
            for use in re.compile(rf"(?<![\w.])(?<!->){name}\b").finditer(self.code):
                if match.start() <= use.start() < match.end():
                    continue
                if self.code.count("{", 0, use.start()) == self.code.count("}", 0, use.start()):
                    raise self.source.error(use.start(), f"function constant {name} can only be used in functions")
                self.edit(use.start(), use.end(), f"{name}()")

    def namespace_constants(self) -> None:
        taken = [start for start, _ in self.handled]
        for position in statements(self.code, "constant"):
            depth = self.code.count("{", 0, position) - self.code.count("}", 0, position)
            if depth == 0 and position not in taken:
                self.edit(position, position + len("constant"), "MSL_CONSTANT")

    def threadgroup_memory(self) -> None:
        for position in statements(self.code, "threadgroup"):
            declaration = self.code[position : self.code.find(";", position)]
            if re.match(r"threadgroup\b[^=(\[]*[*&]", declaration):
                continue
            match = THREADGROUP_ARRAY.match(self.code, position)
            if not match:
                raise self.source.error(position, f"unsupported declaration: {' '.join(declaration.split())}")
            if not any(start < position < end for start, end in self.bodies):
                raise self.source.error(position, "threadgroup memory is declared in kernels only")
            self.edit(position, position + len("threadgroup"), "MSL_THREADGROUP")
            names = [re.match(r"\s*(\w+)", d) for d in split_arguments(match.group(1))]
            init = "".join(f" MSL_THREADGROUP_INIT({name.group(1)})" for name in names if name)
            self.edit(match.end(), match.end(), init)

    def nothing_left_over(self) -> None:
        for match in re.finditer(r"\bkernel\b|\bhost_name\b|\[\[", self.source.without_comments):
            if not any(start <= match.start() < end for start, end in self.handled):
                line = self.source.text[match.start() :].split("\n", 1)[0].strip()
                raise self.source.error(match.start(), f"a form of kernel or attribute that is not known: {line}")


def parse(source: Source) -> Shader:
    return Parser(source).parse()
