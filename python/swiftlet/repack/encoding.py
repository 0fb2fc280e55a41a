"""How a tensor is stored: plain values, or codes in groups with scales (and biases)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from swiftlet._core import ContainerError, InputError

from .quantize import BITS, FLOATS, GROUP_SIZES
from .source import ELEMENT_BYTES

ROUTER_BITS, ROUTER_GROUP = 8, 64  # routers and shared-expert gates, whatever the rest has


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a matrix is stored: mode "plain" (group_size 0), "affine", "mxfp4", "mxfp8" or "nvfp4"."""

    mode: str
    bits: int
    group_size: int


@dataclass(frozen=True, slots=True)
class Spec:
    """Name, dtype and shape of a stored tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * ELEMENT_BYTES[self.dtype]


def describe(name: str, shape: tuple[int, int], weight: Spec, scales: Spec | None, biases: Spec | None) -> Encoding:
    """How a matrix of logical shape [rows, cols] is encoded, found from its pieces."""
    rows, cols = shape

    def bad(what: str) -> ContainerError:
        return ContainerError(f"{name} should be a [{rows}, {cols}] matrix, but {what}")

    if scales is None:
        if biases is not None:
            raise bad("has biases without scales")
        if weight.dtype not in FLOATS:
            raise bad(f"is {weight.dtype} without scales; use a bf16 checkpoint or an MLX conversion of it")
        if weight.shape != shape:
            raise bad(f"has the shape {list(weight.shape)}")
        return Encoding("plain", 8 * ELEMENT_BYTES[weight.dtype], 0)
    if weight.dtype != "U32":
        raise bad(f"has scales although it is {weight.dtype}")
    words, groups = math.prod(weight.shape) // rows, math.prod(scales.shape) // rows
    if weight.shape != (rows, words) or scales.shape != (rows, groups) or not words or not groups:
        raise bad(f"has weight {list(weight.shape)} and scales {list(scales.shape)}")
    if 32 * words % cols or cols % groups:
        raise bad(f"has {words} words and {groups} scales a row")
    bits, group_size = 32 * words // cols, cols // groups
    if scales.dtype == "U8" and biases is None:
        mode = {(4, 32): "mxfp4", (8, 32): "mxfp8", (4, 16): "nvfp4"}.get((bits, group_size))
        if mode is None:
            raise bad(f"has byte scales with {bits} bits in groups of {group_size}")
        return Encoding(mode, bits, group_size)
    if biases is None or scales.dtype not in FLOATS or (biases.dtype, biases.shape) != (scales.dtype, scales.shape):
        raise bad("has no biases that fit its scales")
    if bits not in BITS or group_size not in GROUP_SIZES:
        raise bad(f"has {bits} bits in groups of {group_size}, which is not supported")
    return Encoding("affine", bits, group_size)


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
        bits, group = (ROUTER_BITS, ROUTER_GROUP) if is_gate(canonical_name) else (self.bits, self.group_size)
        return Encoding("affine", bits, group) if shape[1] % group == 0 and shape[1] % self.group_size == 0 else None


def is_gate(canonical_name: str) -> bool:
    """Whether the matrix decides where tokens go, and so is kept at more bits than the rest."""
    return canonical_name.endswith(("mlp.gate.weight", "mlp.shared_expert_gate.weight"))


def quantized_specs(prefix: str, dtype: str, shape: Sequence[int], encoding: Encoding) -> tuple[Spec, ...]:
    """The three tensors that a matrix becomes; `prefix` ends with a dot."""
    rows, cols = shape
    groups = (rows, cols // encoding.group_size)
    return (
        Spec(prefix + "weight", "U32", (rows, cols * encoding.bits // 32)),
        Spec(prefix + "scales", dtype, groups),
        Spec(prefix + "biases", dtype, groups),
    )
