"""The work of making a container, in pieces that fit in memory however large the tensors are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swiftlet._core import ContainerError

from .encoding import Encoding, Spec
from .quantize import quantize
from .source import ELEMENT_BYTES, Extent, Reader

_COPY_BYTES = 4 << 20  # of the source, for one piece
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
