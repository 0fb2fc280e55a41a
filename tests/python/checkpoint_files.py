"""Reads, writes and changes the files of a checkpoint, apart from the code under test."""

import json
import math
import shutil
from pathlib import Path

import numpy as np

from reference import CHECKPOINTS

BYTES = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "U8": 1, "F8_E4M3": 1}

Stored = tuple[str, list[int], bytes]  # dtype, shape, data


def read_tensors(path: Path) -> dict[str, Stored]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return tensors


def write_tensors(path: Path, tensors: dict[str, Stored]) -> None:
    header, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        assert len(data) == math.prod(shape) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    write_raw(path, json.dumps(header).encode(), b"".join(data for _, _, data in tensors.values()))


def write_raw(path: Path, header: bytes, data: bytes) -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def read_checkpoint(folder: Path) -> dict[str, Stored]:
    """All tensors of a checkpoint, whatever the shards."""
    tensors = {}
    for shard in folder.glob("*.safetensors"):
        tensors |= read_tensors(shard)
    return tensors


def copy_checkpoint(name: str, folder: Path) -> Path:
    """A copy of a reference checkpoint as one shard without an index, to be changed."""
    skip = shutil.ignore_patterns("*.safetensors", "*.index.json")
    shutil.copytree(CHECKPOINTS / name, folder, ignore=skip)
    write_tensors(folder / "model.safetensors", read_checkpoint(CHECKPOINTS / name))
    return folder


def change_tensors(folder: Path, change) -> None:
    """Applies `change` to the dict of tensors of a checkpoint of one shard."""
    tensors = read_tensors(folder / "model.safetensors")
    change(tensors)
    write_tensors(folder / "model.safetensors", tensors)


def change_json(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def values(stored: Stored) -> np.ndarray:
    """A float tensor as f32."""
    dtype, shape, data = stored
    if dtype == "BF16":
        wide = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    return np.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[dtype]).astype(np.float32).reshape(shape)


def dequantize(weight: Stored, scales: Stored, biases: Stored) -> np.ndarray:
    """scale * code + bias in f32, codes taken bit by bit from each row's stream."""
    rows, words = weight[1]
    s, b = values(scales), values(biases)
    stream = np.unpackbits(np.frombuffer(weight[2], np.uint8).reshape(rows, 4 * words), axis=1, bitorder="little")
    for group in (32, 64, 128):
        bits, rest = divmod(32 * words, group * s.shape[1])
        if not rest and bits in (2, 3, 4, 5, 6, 8) and (bits == 8 or group == 64):
            break
    codes = stream.reshape(rows, -1, bits) @ (1 << np.arange(bits))
    return s.repeat(group, axis=1) * codes.astype(np.float32) + b.repeat(group, axis=1)
