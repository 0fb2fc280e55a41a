"""A checkpoint folder: config.json, safetensors shards, and tensors that are read slice by slice.

A checkpoint comes from outside, so nothing in it is believed: every length, offset, shape and file name is checked
before it is used, and a contradiction is a ContainerError that names the file.
"""

from __future__ import annotations

import json
import math
import os
import stat
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeGuard, TypeVar

from swiftlet._core import ContainerError, IoError

INDEX = "model.safetensors.index.json"
WEIGHTS = "model.safetensors"

# Bytes of one element, for every dtype of the safetensors format whose elements are whole bytes.
ELEMENT_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip

_MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library
_MAX_JSON_BYTES = 100_000_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes [offset, offset + nbytes) of a file."""

    path: Path
    offset: int
    nbytes: int

    def part(self, begin: int, nbytes: int) -> Extent:
        """`nbytes` of this extent, from its byte `begin` on."""
        assert begin >= 0 and nbytes >= 0 and begin + nbytes <= self.nbytes
        return Extent(self.path, self.offset + begin, nbytes)


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    dtype: str  # as safetensors spells it: "BF16", "U32", ...
    shape: tuple[int, ...]
    extent: Extent


@dataclass(frozen=True, slots=True)
class Checkpoint:
    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]


class Reader:
    """Positional reads that are complete or an error. Files stay open; safe to use from many threads."""

    def __init__(self) -> None:
        self._descriptors: dict[Path, int] = {}
        self._lock = threading.Lock()

    def read(self, extent: Extent) -> bytes:
        try:
            with self._lock:
                fd = self._descriptors.get(extent.path)
                if fd is None:
                    fd = self._descriptors[extent.path] = os.open(extent.path, os.O_RDONLY)
            data = os.pread(fd, extent.nbytes, extent.offset)
            while len(data) < extent.nbytes:
                more = os.pread(fd, extent.nbytes - len(data), extent.offset + len(data))
                if not more:
                    raise ContainerError(f"{extent.path} ended at byte {extent.offset + len(data)} while it was read")
                data += more
        except OSError as error:
            raise IoError(f"{extent.path} cannot be read: {error.strerror}") from error
        return data

    def close(self) -> None:
        for fd in self._descriptors.values():
            os.close(fd)
        self._descriptors.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_checkpoint(folder: Path) -> Checkpoint:
    """Reads config, index and shard headers of a checkpoint folder; no weights are read yet."""
    if not folder.is_dir():
        raise ContainerError(f"{folder} is not a folder; give the one that holds the checkpoint's config.json")
    if (folder / "manifest.json").exists():
        raise ContainerError(f"{folder} is a container already; give the checkpoint it was made from")
    config = read_json(folder / "config.json")
    tensors: dict[str, Tensor] = {}
    index = _shard_index(folder)
    for shard in sorted(set(index.values())) if index else [WEIGHTS]:
        for name, tensor in read_header(folder / shard).items():
            if name in tensors:
                first = tensors[name].extent.path.name
                raise ContainerError(f"{folder / shard} repeats tensor {name}, which {first} has already")
            tensors[name] = tensor
    for name, shard in index.items():
        if name not in tensors or tensors[name].extent.path.name != shard:
            raise ContainerError(f"{folder / shard} has no tensor {name} although {INDEX} says so; download it again")
    return Checkpoint(folder, config, tensors)


def _shard_index(folder: Path) -> dict[str, str]:
    """Tensor name -> shard; empty for a checkpoint of one file without an index."""
    path = folder / INDEX
    if not path.exists():
        if not (folder / WEIGHTS).exists():
            raise ContainerError(f"{folder} has neither {INDEX} nor {WEIGHTS}; is the download complete?")
        return {}
    index = read_json(path).get("weight_map")
    if not isinstance(index, dict) or not index:
        raise ContainerError(f"{path} has no weight_map")
    for name, shard in index.items():
        if not isinstance(shard, str) or not is_plain_name(shard):
            raise ContainerError(f"{path} places {name} in {shard!r}, which is not a file name inside the folder")
    for shard in sorted(set(index.values())):
        if not (folder / shard).exists():
            raise ContainerError(f"{folder} lacks the shard {shard}, which {INDEX} names; download it again")
    return index


def is_plain_name(name: str) -> bool:
    """True for the name of a file in the same folder: no separator, no parent, nothing hidden."""
    return bool(name) and not name.startswith(".") and not any(c in "/\\:" or not c.isprintable() for c in name)


def file_bytes(path: Path) -> int:
    """The size of a regular file; anything else is an error."""
    try:
        status = path.stat()
    except OSError as error:
        raise ContainerError(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ContainerError(f"{path} is not a file")
    return status.st_size


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that must hold an object."""
    size = file_bytes(path)
    if size > _MAX_JSON_BYTES:
        raise ContainerError(f"{path} has {size:,} bytes, too many for a JSON file of a checkpoint")
    return _parse_object(path.read_bytes(), str(path))


def _parse_object(data: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise ContainerError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ContainerError(f"{where} is not a JSON object")
    return value


def _without_repeats(pairs: list[tuple[str, T]]) -> dict[str, T]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)!r} appears twice")
    return result


def read_header(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file.

    The format is a little-endian u64 header length, that many bytes of JSON {name: {dtype, shape, data_offsets}}, then
    the data, which the tensors cover without gap or overlap.
    """
    size = file_bytes(path)
    with path.open("rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else size
        if length > min(size - 8, _MAX_HEADER_BYTES):
            raise ContainerError(f"{path} is truncated or no safetensors file; download it again")
        header = _parse_object(file.read(length), f"the header of {path}")
    header.pop("__metadata__", None)
    data = 8 + length
    tensors = {name: _parse_tensor(path, name, entry, data, size) for name, entry in header.items()}
    end = data
    for tensor in sorted(tensors.values(), key=lambda t: (t.extent.offset, t.extent.nbytes)):
        if tensor.extent.offset != end:
            raise ContainerError(f"{path}: tensor {tensor.name} begins at byte {tensor.extent.offset} instead of {end}")
        end += tensor.extent.nbytes
    if end != size:
        raise ContainerError(f"{path} has {size:,} bytes, but its header describes {end:,}; download it again")
    return tensors


def _parse_tensor(path: Path, name: str, entry: object, data: int, size: int) -> Tensor:
    def bad(what: str) -> ContainerError:
        return ContainerError(f"{path}: tensor {name} {what}")

    if not isinstance(entry, dict):
        raise bad("has no description")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in ELEMENT_BYTES:
        raise bad(f"has the unknown dtype {dtype!r}")
    if not are_sizes(shape):
        raise bad(f"has the impossible shape {shape!r}")
    if not are_sizes(offsets) or len(offsets) != 2:
        raise bad(f"has the impossible data_offsets {offsets!r}")
    begin, end = offsets
    if end < begin:
        raise bad(f"has the impossible data_offsets {offsets!r}")
    if data + end > size:
        raise bad(f"ends at byte {data + end:,}, but the file has only {size:,}; download it again")
    if end - begin != math.prod(shape) * ELEMENT_BYTES[dtype]:
        raise bad(f"has {end - begin} bytes, which do not fit {dtype} {shape}")
    return Tensor(name, dtype, tuple(shape), Extent(path, data + begin, end - begin))


def is_size(value: object) -> TypeGuard[int]:
    """A number that can be a size or an offset: an integer (true is none) of 0 .. 2^63 - 1."""
    return type(value) is int and 0 <= value < 2**63


def are_sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(map(is_size, value))
