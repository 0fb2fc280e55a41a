"""What a container will hold: every tensor, how it is encoded, and the bytes of the checkpoint it comes from.

The same plan serves the writer, which produces the bytes and stores them, and the verifier, which produces them again
and compares.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swiftlet._core import ContainerError, InputError

from . import names
from .dimensions import Dimensions, parse_config
from .layout import DENSE, Encoding, ExpertLayout, Spec, describe, lay_out
from .quantize import BITS, FLOATS, GROUP_SIZES, quantize
from .source import ELEMENT_BYTES, Checkpoint, Extent, Reader, Tensor, file_bytes

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
ROUTER_BITS, ROUTER_GROUP = 8, 64  # routers and shared-expert gates, whatever the rest has

_COPY_BYTES = 4 << 20  # of one piece of work, so that memory stays small however large the tensors are
_QUANTIZE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Item:
    """Bytes of the checkpoint and what they become: the same bytes, or weight, scales and biases.

    Its units are single bytes, or groups of weights: whole numbers of them can be produced apart from the rest.
    """

    name: str  # of the checkpoint's tensor
    source: Extent
    dtype: str
    outputs: tuple[Spec, ...]
    encoding: Encoding | None  # None: copied

    @property
    def units(self) -> int:
        return self.source.nbytes // self._unit_bytes

    @property
    def _unit_bytes(self) -> int:
        return 1 if self.encoding is None else self.encoding.group_size * ELEMENT_BYTES[self.dtype]

    def pieces(self) -> Iterator[Piece]:
        step = max(1, (_COPY_BYTES if self.encoding is None else _QUANTIZE_BYTES) // self._unit_bytes)
        for begin in range(0, self.units, step):
            yield Piece(self, begin, min(begin + step, self.units))


@dataclass(frozen=True, slots=True)
class Piece:
    """Units [begin, end) of an item: the unit of work."""

    item: Item
    begin: int
    end: int

    def produce(self, reader: Reader) -> list[tuple[int, bytes]]:
        """For each output, the byte at which this piece begins, and its bytes."""
        item, unit = self.item, self.item._unit_bytes
        data = reader.read(item.source.part(self.begin * unit, (self.end - self.begin) * unit))
        if item.encoding is None:
            return [(self.begin, data)]
        try:
            made = quantize(data, item.dtype, item.encoding.bits, item.encoding.group_size)
        except ValueError as error:
            where = f"{item.name} of {item.source.path}"
            raise ContainerError(f"{where} cannot be quantized: it holds {error}") from None
        return [(self.begin * (len(part) // (self.end - self.begin)), part) for part in made]


@dataclass(frozen=True, slots=True)
class Work:
    """A piece, and where each output of its item begins in the container's file."""

    piece: Piece
    offsets: tuple[int, ...]
    expert: int | None = None

    def produce(self, reader: Reader) -> list[tuple[str, int, bytes]]:
        """Name of the output, offset in the file and bytes."""
        made = self.piece.produce(reader)
        outputs = self.piece.item.outputs
        return [(o.name, at + begin, data) for o, at, (begin, data) in zip(outputs, self.offsets, made, strict=True)]


@dataclass(frozen=True, slots=True)
class Stack:
    """One tensor of every expert of a layer; all have the same dtype and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]  # of one expert
    tensors: tuple[Tensor, ...]  # one an expert, or a single one with the experts along its first axis
    begin: int = 0  # byte within an expert's part
    step: int = 0  # bytes from one expert to the next, if stacked

    def extent(self, expert: int) -> Extent:
        nbytes = math.prod(self.shape) * ELEMENT_BYTES[self.dtype]
        if self.step:
            return self.tensors[0].extent.part(expert * self.step + self.begin, nbytes)
        return self.tensors[expert].extent

    def spec(self, name: str) -> Spec:
        return Spec(name, self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Quantization:
    """Quantize on the way: this many bits in groups of this size."""

    bits: int
    group_size: int

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise InputError(f"{self.bits} bits cannot be chosen; choose from {', '.join(map(str, BITS))}")
        if self.group_size not in GROUP_SIZES:
            raise InputError(
                f"a group size of {self.group_size} cannot be chosen; choose from {', '.join(map(str, GROUP_SIZES))}"
            )

    def encoding(self, canonical_name: str, dtype: str, shape: Sequence[int]) -> Encoding | None:
        """How a tensor is quantized, or None if it stays: not a matrix, or columns that do not divide into groups."""
        if dtype not in FLOATS or len(shape) != 2 or not canonical_name.endswith((".weight", "_proj")):
            return None
        gate = canonical_name.endswith(("mlp.gate.weight", "shared_expert_gate.weight"))
        bits, group = (ROUTER_BITS, ROUTER_GROUP) if gate else (self.bits, self.group_size)
        return Encoding("affine", bits, group) if shape[1] % group == 0 and shape[1] % self.group_size == 0 else None


@dataclass(frozen=True, slots=True)
class ExpertMatrix:
    """A matrix of the routed experts: its stored tensors, and how they are (or will be) encoded."""

    matrix: str  # one of names.MATRICES
    stacks: tuple[Stack, ...]  # weight, or weight and scales, or weight, scales and biases
    encoding: Encoding
    quantized_here: bool

    def items(self, expert: int) -> list[Item]:
        if self.quantized_here:
            (weight,) = self.stacks
            specs = quantized_specs(f"{self.matrix}.", weight.dtype, weight.shape, self.encoding)
            return [Item(weight.name, weight.extent(expert), weight.dtype, specs, self.encoding)]
        return [
            Item(stack.name, stack.extent(expert), stack.dtype, (stack.spec(f"{self.matrix}.{field}"),), None)
            for stack, field in zip(self.stacks, names.FIELDS, strict=False)
        ]


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


def quantized_specs(prefix: str, dtype: str, shape: Sequence[int], encoding: Encoding) -> tuple[Spec, ...]:
    """The three tensors that a matrix becomes; `prefix` ends with a dot."""
    rows, cols = shape
    groups = (rows, cols // encoding.group_size)
    return (
        Spec(prefix + "weight", "U32", (rows, cols * encoding.bits // 32)),
        Spec(prefix + "scales", dtype, groups),
        Spec(prefix + "biases", dtype, groups),
    )


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
            if name.endswith(("mlp.gate.weight", "shared_expert_gate.weight")):
                overrides[module] = {"group_size": encoding.group_size, "bits": encoding.bits}
        items.append(Item(tensor.name, tensor.extent, tensor.dtype, outputs, encoding))

    experts = tuple(
        _experts(checkpoint, dimensions, layer, routed.pop(layer, {}), quantization) if moe else ()
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
        tuple(lay_out(_sections(matrices)) if matrices else DENSE for matrices in experts),
    )


def _sections(matrices: Iterable[ExpertMatrix]) -> Iterator[tuple[Spec, Encoding]]:
    for matrix in matrices:
        for item in matrix.items(0):
            for spec in item.outputs:
                yield spec, matrix.encoding


Routed = dict[tuple[str, str, int | None], Tensor]  # (matrix, field, expert) -> tensor


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


def _experts(
    checkpoint: Checkpoint, dimensions: Dimensions, layer: int, routed: Routed, quantization: Quantization | None
) -> tuple[ExpertMatrix, ...]:
    """The three matrices of a layer's experts. Takes the tensors it uses out of `routed`."""
    matrices = []
    fused = routed.pop(("gate_up_proj", "weight", None), None)
    for matrix in names.MATRICES:
        where = f"the experts' {matrix} weights of layer {layer} of {checkpoint.folder}"
        rows, cols = dimensions.expert_shape(matrix)
        stacks = []
        for field in names.FIELDS:
            stack = _stack(where, matrix, field, routed, dimensions.num_experts)
            if stack is None and fused is not None and field == "weight":
                stack = _half(fused, dimensions, upper=matrix == "up_proj")
            if stack is not None:
                stacks.append((field, stack))
        specs = {field: stack.spec(field) for field, stack in stacks}
        if "weight" not in specs:
            raise ContainerError(f"{where} are missing, which config.json asks for")
        encoding = describe(where, (rows, cols), specs["weight"], specs.get("scales"), specs.get("biases"))
        wanted = quantization.encoding(matrix, specs["weight"].dtype, (rows, cols)) if quantization else None
        matrices.append(ExpertMatrix(matrix, tuple(s for _, s in stacks), wanted or encoding, wanted is not None))
    for stray in routed.values():
        raise ContainerError(f"{stray.extent.path} has {stray.name}, which is none of {dimensions.num_experts} experts")
    return tuple(matrices)


def _stack(where: str, matrix: str, field: str, routed: Routed, experts: int) -> Stack | None:
    whole = routed.pop((matrix, field, None), None)
    if whole is not None:
        if whole.shape[:1] != (experts,):
            found = f"{list(whole.shape)} instead of [{experts}, ...]"
            raise ContainerError(
                f"{whole.name} of {whole.extent.path} is {found}, as config.json has {experts} experts"
            )
        return Stack(whole.name, whole.dtype, whole.shape[1:], (whole,), step=whole.extent.nbytes // experts)
    singles = {expert: routed.pop((matrix, field, expert), None) for expert in range(experts)}
    tensors = tuple(tensor for tensor in singles.values() if tensor is not None)
    if not tensors:
        return None
    first = tensors[0]
    for expert, tensor in singles.items():
        if tensor is None:
            raise ContainerError(f"{where} are incomplete: expert {expert} has no {field}")
        if (tensor.dtype, tensor.shape) != (first.dtype, first.shape):
            raise ContainerError(f"{tensor.name} of {tensor.extent.path} has another dtype or shape than {first.name}")
    return Stack(first.name, first.dtype, first.shape, tensors)


def _half(fused: Tensor, dimensions: Dimensions, *, upper: bool) -> Stack:
    """gate_proj (lower rows) or up_proj of the experts' gate_up_proj [experts, 2 * intermediate, hidden]."""
    rows, cols = dimensions.expert_shape("gate_proj")
    if fused.shape != (dimensions.num_experts, 2 * rows, cols):
        expected = [dimensions.num_experts, 2 * rows, cols]
        raise ContainerError(f"{fused.name} of {fused.extent.path} is {list(fused.shape)} instead of {expected}")
    step = fused.extent.nbytes // dimensions.num_experts
    return Stack(fused.name, fused.dtype, (rows, cols), (fused,), begin=step // 2 if upper else 0, step=step)


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
