"""How tensors lie in a container: the safetensors file of the resident ones and the blob of one expert."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from swiftlet._core import ContainerError

from .encoding import Encoding, Spec
from .source import ELEMENT_BYTES, are_sizes, is_size

STRIDE = 16_384  # an expert's blob begins at a multiple of this, so that it can be read around the page cache
ALIGNMENT = 16  # of a section inside the blob


@dataclass(frozen=True, slots=True)
class Section:
    """A tensor inside an expert's blob, `offset` bytes from the blob's start."""

    spec: Spec
    offset: int
    encoding: Encoding | None  # of its matrix; None: not said


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """The blob of one expert; a layer without experts has stride 0 and no sections."""

    stride: int
    sections: tuple[Section, ...]

    def specs(self) -> dict[str, Spec]:
        return {section.spec.name: section.spec for section in self.sections}


DENSE = ExpertLayout(0, ())


def lay_out(specs: Iterable[tuple[Spec, Encoding]]) -> ExpertLayout:
    """Places the tensors of one expert, one after the other."""
    sections, end = [], 0
    for spec, encoding in specs:
        section = Section(spec, _round_up(end, ALIGNMENT), encoding)
        sections.append(section)
        end = section.offset + spec.nbytes
    return ExpertLayout(_round_up(end, STRIDE), tuple(sections))


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def layout_json(experts: int, linear_layers: Sequence[bool], layouts: Sequence[ExpertLayout]) -> dict[str, Any]:
    """The content of packed_experts/layout.json. Layers that differ from the commonest are listed under "layers"."""
    common = Counter(layout for layout in layouts if layout.stride).most_common(1)[0][0]
    others = {str(i): _layout_entry(layout) for i, layout in enumerate(layouts) if layout != common}
    return {
        "expertCount": experts,
        "layerCount": len(layouts),
        **_layout_entry(common),
        "linearLayers": list(linear_layers),
        **({"layers": others} if others else {}),
    }


def _layout_entry(layout: ExpertLayout) -> dict[str, Any]:
    return {"expertStride": layout.stride, "sections": [_section_entry(section) for section in layout.sections]}


def _section_entry(section: Section) -> dict[str, Any]:
    spec, encoding = section.spec, section.encoding
    entry: dict[str, Any] = {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
    entry |= {"offset": section.offset, "size": spec.nbytes}
    if encoding:
        entry |= {"bits": encoding.bits, "groupSize": encoding.group_size, "mode": encoding.mode}
    return entry


def parse_layout(content: dict[str, Any], where: str) -> tuple[int, list[bool], list[ExpertLayout]]:
    """Expert count, linear layers and the layout of each layer, from the content of layout.json."""
    experts, count, linear = content.get("expertCount"), content.get("layerCount"), content.get("linearLayers")
    if not is_size(experts) or not is_size(count) or not 0 < count <= 4096 or not experts:
        raise ContainerError(f"{where} has expertCount {experts!r} and layerCount {count!r}")
    if not isinstance(linear, list) or len(linear) != count or not all(isinstance(flag, bool) for flag in linear):
        raise ContainerError(f"{where} has linearLayers that are not {count} times true or false")
    layouts = [_parse_entry(content, where)] * count
    others = content.get("layers", {})
    if not isinstance(others, dict):
        raise ContainerError(f"{where} has layers that are not an object")
    for key, entry in others.items():
        if not key.isascii() or not key.isdigit() or len(key) > 4 or int(key) >= count or not isinstance(entry, dict):
            raise ContainerError(f"{where} has an entry {key!r} in layers, which is no layer")
        layouts[int(key)] = _parse_entry(entry, f"{where}, layer {key},")
    return experts, linear, layouts


def _parse_entry(entry: dict[str, Any], where: str) -> ExpertLayout:
    stride, sections = entry.get("expertStride"), entry.get("sections")
    if not is_size(stride) or stride % STRIDE or not isinstance(sections, list):
        raise ContainerError(f"{where} has expertStride {stride!r} or sections that cannot be")
    parsed = tuple(_parse_section(section, where) for section in sections)
    end = 0
    for section in sorted(parsed, key=lambda s: s.offset):
        if section.offset < end:
            raise ContainerError(f"{where} has a section {section.spec.name} that overlaps another")
        end = section.offset + section.spec.nbytes
    if end > stride or len({section.spec.name for section in parsed}) != len(parsed):
        raise ContainerError(f"{where} has sections that repeat a name or reach past expertStride {stride}")
    return ExpertLayout(stride, parsed)


def _parse_section(section: object, where: str) -> Section:
    if not isinstance(section, dict):
        raise ContainerError(f"{where} has a section that is not an object")
    name, dtype, shape = section.get("name"), section.get("dtype"), section.get("shape")
    if not isinstance(name, str) or not isinstance(dtype, str) or dtype not in ELEMENT_BYTES:
        raise ContainerError(f"{where} has a section {name!r} of dtype {dtype!r}")
    if not are_sizes(shape):
        raise ContainerError(f"{where} has a section {name} of shape {shape!r}")
    spec, offset = Spec(name, dtype, tuple(shape)), section.get("offset")
    if not is_size(offset) or section.get("size") != spec.nbytes:
        raise ContainerError(f"{where} has a section {name} whose offset or size cannot be")
    return Section(spec, offset, None)


def safetensors_header(specs: Iterable[Spec]) -> tuple[bytes, dict[str, int]]:
    """The header of a safetensors file, and the offset of each tensor in that file.

    Tensors of larger elements come first, so that every one of them is aligned.
    """
    entries: dict[str, dict[str, Any]] = {}
    begins: dict[str, int] = {}
    end = 0
    for spec in sorted(specs, key=lambda s: (-ELEMENT_BYTES[s.dtype], s.name)):
        begins[spec.name], end = end, end + spec.nbytes
        entries[spec.name] = {"dtype": spec.dtype, "shape": spec.shape, "data_offsets": [begins[spec.name], end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    header = struct.pack("<Q", len(text)) + text
    return header, {name: len(header) + begin for name, begin in begins.items()}
