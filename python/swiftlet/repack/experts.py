"""The routed experts of a layer: where each one's weights lie in a checkpoint, in any of the layouts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from swiftlet._core import ContainerError

from . import names
from .dimensions import Dimensions
from .encoding import Encoding, Quantization, Spec, describe, quantized_specs
from .pieces import Item
from .source import ELEMENT_BYTES, Tensor

Routed = dict[tuple[str, str, int | None], Tensor]  # (matrix, field, expert) -> tensor


@dataclass(frozen=True, slots=True)
class Stack:
    """One tensor of every expert of a layer; all have the same dtype and shape."""

    dtype: str
    shape: tuple[int, ...]  # of one expert
    tensors: tuple[Tensor, ...]  # one an expert, or a single one with the experts along its first axis
    begin: int = 0  # byte within an expert's part
    step: int = 0  # bytes from one expert to the next, if stacked

    def spec(self, name: str) -> Spec:
        return Spec(name, self.dtype, self.shape)

    def item(self, expert: int, outputs: tuple[Spec, ...], encoding: Encoding | None) -> Item:
        tensor = self.tensors[0 if self.step else expert]
        nbytes = math.prod(self.shape) * ELEMENT_BYTES[self.dtype]
        source = tensor.extent.part(expert * self.step + self.begin, nbytes)
        return Item(tensor.name, source, self.dtype, outputs, encoding)


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
            return [weight.item(expert, specs, self.encoding)]
        return [
            stack.item(expert, (stack.spec(f"{self.matrix}.{field}"),), None)
            for stack, field in zip(self.stacks, names.FIELDS, strict=False)
        ]


def sections(matrices: Iterable[ExpertMatrix]) -> Iterator[tuple[Spec, Encoding]]:
    """The tensors of one expert's blob, in order."""
    for matrix in matrices:
        for item in matrix.items(0):
            for spec in item.outputs:
                yield spec, matrix.encoding


def find_experts(
    folder: Path, dimensions: Dimensions, layer: int, routed: Routed, quantization: Quantization | None
) -> tuple[ExpertMatrix, ...]:
    """The three matrices of a layer's experts. Takes the tensors it uses out of `routed`."""
    matrices = []
    fused = routed.pop(("gate_up_proj", "weight", None), None)
    if fused is not None and any(matrix != "down_proj" for matrix, _, _ in routed):
        raise ContainerError(f"{fused.extent.path} has {fused.name} although the layer has gate_proj or up_proj")
    for matrix in names.MATRICES:
        where = f"the experts' {matrix} weights of layer {layer} of {folder}"
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
        return Stack(whole.dtype, whole.shape[1:], (whole,), step=whole.extent.nbytes // experts)
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
    return Stack(first.dtype, first.shape, tensors)


def _half(fused: Tensor, dimensions: Dimensions, *, upper: bool) -> Stack:
    """gate_proj (lower rows) or up_proj of the experts' gate_up_proj [experts, 2 * intermediate, hidden]."""
    rows, cols = dimensions.expert_shape("gate_proj")
    if fused.shape != (dimensions.num_experts, 2 * rows, cols):
        expected = [dimensions.num_experts, 2 * rows, cols]
        raise ContainerError(f"{fused.name} of {fused.extent.path} is {list(fused.shape)} instead of {expected}")
    step = fused.extent.nbytes // dimensions.num_experts
    return Stack(fused.dtype, (rows, cols), (fused,), begin=step // 2 if upper else 0, step=step)
