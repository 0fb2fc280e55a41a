"""What a container will hold: every tensor, how it is encoded, and the bytes of the checkpoint it comes from.

The same plan serves the writer, which produces the bytes and stores them, and the verifier, which produces them again
and compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from swiftlet._core import ContainerError, InputError

from . import names
from .dimensions import Dimensions, parse_config
from .encoding import Quantization, Spec, describe, is_gate, quantized_specs
from .experts import ExpertMatrix, Routed, find_experts, sections
from .layout import DENSE, ExpertLayout, lay_out
from .pieces import Item, Work
from .quantize import FLOATS
from .source import Checkpoint, Extent, Tensor, file_bytes

CONFIG = "config.json"
RESIDENT = "model.safetensors"
LAYOUT = "packed_experts/layout.json"
DOCUMENTS = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "LICENSE",
)


@dataclass(frozen=True, slots=True)
class Plan:
    checkpoint: Checkpoint
    dimensions: Dimensions
    quantization: Quantization | None  # on the way
    config: bytes | None  # of the container, if it differs from the checkpoint's
    documents: tuple[Item, ...]  # files that are copied
    resident: tuple[Item, ...]
    experts: tuple[tuple[ExpertMatrix, ...], ...]  # of each layer; empty for a dense one
    layouts: tuple[ExpertLayout, ...]

    def resident_specs(self) -> list[Spec]:
        return [spec for item in self.resident for spec in item.outputs]

    def resident_work(self, offsets: Mapping[str, int]) -> Iterator[Work]:
        """Everything of model.safetensors, where each tensor begins at offsets[name] of the file."""
        for item in self.resident:
            at = tuple(offsets[spec.name] for spec in item.outputs)
            for piece in item.pieces():
                yield Work(piece, at)

    def layer_work(self, layer: int, layout: ExpertLayout) -> Iterator[Work]:
        """Everything of a layer's file, laid out as `layout` says."""
        offsets = {section.spec.name: section.offset for section in layout.sections}
        for expert in range(self.dimensions.num_experts):
            for matrix in self.experts[layer]:
                for item in matrix.items(expert):
                    at = tuple(expert * layout.stride + offsets[spec.name] for spec in item.outputs)
                    for piece in item.pieces():
                        yield Work(piece, at, expert)


def layer_file(layer: int) -> str:
    return f"packed_experts/layer_{layer:02d}.bin"


def make_plan(checkpoint: Checkpoint, quantization: Quantization | None) -> Plan:
    """Finds every tensor and checks it against config.json. No weights are read."""
    config_path = checkpoint.folder / CONFIG
    dimensions = parse_config(checkpoint.config, config_path)
    resident, routed = _sort(checkpoint)
    if quantization and _is_quantized(checkpoint, resident, routed):
        raise InputError(
            f"{checkpoint.folder} is quantized already; leave out the bits or give the original checkpoint"
        )
    specs = {name: Spec(name, tensor.dtype, tensor.shape) for name, tensor in resident.items()}
    check_resident(specs, dimensions, str(checkpoint.folder))

    items, overrides = [], {}
    for name, tensor in resident.items():
        encoding = quantization.encoding(name, tensor.dtype, tensor.shape) if quantization else None
        if encoding is None:
            outputs: tuple[Spec, ...] = (Spec(tensor.name, tensor.dtype, tensor.shape),)
        else:
            module = tensor.name.removesuffix(".weight")
            outputs = quantized_specs(module + ".", tensor.dtype, tensor.shape, encoding)
            if is_gate(name):
                overrides[module] = {"group_size": encoding.group_size, "bits": encoding.bits}
        items.append(Item(tensor.name, tensor.extent, tensor.dtype, outputs, encoding))

    experts = tuple(
        find_experts(checkpoint.folder, dimensions, layer, routed.pop(layer, {}), quantization) if moe else ()
        for layer, moe in enumerate(dimensions.moe_layers)
    )
    for layer, tensors in routed.items():
        stray = next(iter(tensors.values())).name
        raise ContainerError(f"{config_path} describes no experts in layer {layer}, but there is a tensor {stray}")
    return Plan(
        checkpoint,
        dimensions,
        quantization,
        _quantized_config(checkpoint.config, quantization, overrides) if quantization else None,
        tuple(_documents(checkpoint, () if quantization else (CONFIG,))),
        tuple(items),
        experts,
        tuple(lay_out(sections(matrices)) if matrices else DENSE for matrices in experts),
    )


def _sort(checkpoint: Checkpoint) -> tuple[dict[str, Tensor], dict[int, Routed]]:
    """Resident tensors by canonical name, and routed ones by layer."""
    resident: dict[str, Tensor] = {}
    routed: dict[int, Routed] = {}
    for tensor in checkpoint.tensors.values():
        name = names.canonical(tensor.name)
        if name is None:
            continue
        if not names.is_routed(name):
            if name in resident:
                raise _twice(resident[name], tensor)
            resident[name] = tensor
            continue
        expert = names.parse_expert(name)
        if expert is None:
            raise ContainerError(f"{tensor.extent.path} stores experts in a way swiftlet does not know: {tensor.name}")
        key = (expert.matrix, expert.field, expert.expert)
        of_layer = routed.setdefault(expert.layer, {})
        if key in of_layer:
            raise _twice(of_layer[key], tensor)
        of_layer[key] = tensor
    return resident, routed


def _twice(first: Tensor, second: Tensor) -> ContainerError:
    return ContainerError(f"{second.extent.path} has {second.name} although there is {first.name} already")


def _is_quantized(checkpoint: Checkpoint, resident: dict[str, Tensor], routed: dict[int, Routed]) -> bool:
    return (
        "quantization" in checkpoint.config
        or any(name.endswith(".scales") for name in resident)
        or any(field == "scales" for tensors in routed.values() for _, field, _ in tensors)
    )


def check_resident(tensors: Mapping[str, Spec], dimensions: Dimensions, where: str) -> None:
    """Every tensor that config.json asks for must be there, in its shape. Keys of `tensors` are canonical names."""
    for name, shape in dimensions.resident.items():
        spec = tensors.get(name)
        if spec is None:
            raise ContainerError(f"{where} has no tensor {name}, which config.json asks for")
        if len(shape) == 2:
            module = name.removesuffix(".weight")
            scales, biases = tensors.get(module + ".scales"), tensors.get(module + ".biases")
            describe(f"{name} of {where}", (shape[0], shape[1]), spec, scales, biases)
            continue
        # A conv1d is [channels, 1, kernel] in the Hugging Face layout and [channels, kernel, 1] in MLX's.
        fits = spec.shape == shape or (len(shape) == 3 and spec.shape == (shape[0], shape[2], shape[1]))
        if not fits or spec.dtype not in FLOATS:
            found = f"{spec.dtype} {list(spec.shape)}"
            raise ContainerError(f"{name} of {where} is {found} instead of a float {list(shape)}")


def _documents(checkpoint: Checkpoint, more: Iterable[str]) -> Iterator[Item]:
    for name in (*more, *DOCUMENTS):
        path = checkpoint.folder / name
        if path.exists():
            size = file_bytes(path)
            yield Item(name, Extent(path, 0, size), "U8", (Spec(name, "U8", (size,)),), None)


def _quantized_config(
    config: dict[str, Any], quantization: Quantization, overrides: dict[str, dict[str, int]]
) -> bytes:
    """config.json with the block that MLX conversions have."""
    block = {"group_size": quantization.group_size, "bits": quantization.bits, "mode": "affine", **overrides}
    return (json.dumps({**config, "quantization": block, "quantization_config": block}, indent=2) + "\n").encode()
