"""Writes full-shape synthetic models: a .qpack container, or an MLX checkpoint to repack.

    make_synthetic.py OUT                               Qwen3.6-35B-A3B, 19.5 GB
    make_synthetic.py OUT --model qwen3-next-80b        44.8 GB
    make_synthetic.py OUT --layers 4                    a slice
    make_synthetic.py --measure OUT                     how the routers of the first layers choose, over tokens.json
    make_synthetic.py --delete OUT                      removes what this script made

OUT/tokens.json lists the ids of a text on which routing has the skew and the locality of real text: feed it to the
engine. Random tokens would make any cache look bad, a greedy loop would make it look good.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from synthetic_model import GROUP, MODELS, Bytes, Model, Tensor, config, shape_of
from synthetic_text import token_script, write_tokenizer

MARKER = ".swiftlet-synthetic"  # a folder that bears it was made here and may be deleted
STRIDE = 16_384  # an expert's blob begins at a multiple of this
SCRIPT_TOKENS = 8192
SHARD_BYTES = 5 << 30
VECTORS = 512  # buffers of one writev


class Output:
    """A new file: gathers buffers into large writes and, if asked to, hashes what passes."""

    def __init__(self, path: Path, hashed: bool) -> None:
        self._file: BinaryIO = path.open("wb", buffering=0)
        self._hash = hashlib.sha256() if hashed else None
        self._waiting: list[Bytes] = []
        self.size = 0

    def write(self, data: Bytes | bytes) -> None:
        self._waiting.append(memoryview(data))
        self.size += len(data)
        if len(self._waiting) == VECTORS:
            self._flush()

    def _flush(self) -> None:
        waiting = self._waiting
        if self._hash:
            for data in waiting:
                self._hash.update(data)
        while waiting:
            written = os.writev(self._file.fileno(), waiting)
            while waiting and written >= len(waiting[0]):
                written -= len(waiting.pop(0))
            if written:
                waiting[0] = waiting[0][written:]

    def close(self) -> str:
        """Leaves the file on disk and not in the page cache. Returns its hash, or ""."""
        self._flush()
        os.fsync(self._file.fileno())
        if hasattr(os, "posix_fadvise"):  # not on macOS
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self._file.close()
        return self._hash.hexdigest() if self._hash else ""


def safetensors_header(tensors: Iterable[Tensor]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    end = 0
    for tensor in tensors:
        entries[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [end, end + tensor.nbytes],
        }
        end += tensor.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write_safetensors(path: Path, tensors: list[Tensor], hashed: bool) -> str:
    out = Output(path, hashed)
    out.write(safetensors_header(tensors))
    for tensor in tensors:
        for piece in tensor.pieces():
            out.write(piece)
    return out.close()


def take(pieces: Iterator[Bytes], size: int) -> Iterator[Bytes]:
    """Pieces of `size` bytes in all."""
    while size > 0:
        piece = next(pieces)
        size -= len(piece)
        yield piece


def write_layer(path: Path, tensors: list[Tensor], stride: int, hashed: bool) -> str:
    """The file of a layer's experts: for each expert, its part of every tensor."""
    out = Output(path, hashed)
    sources = [(tensor.pieces(), tensor.nbytes // tensor.shape[0]) for tensor in tensors]
    padding = bytes(stride - sum(size for _, size in sources))
    for _ in range(tensors[0].shape[0]):
        for pieces, size in sources:
            for piece in take(pieces, size):
                out.write(piece)
        if padding:
            out.write(padding)
    return out.close()


def layout(model: Model) -> dict[str, Any]:
    """packed_experts/layout.json"""
    sections = []
    end = 0
    for tensor in model.experts(0):
        size = tensor.nbytes // tensor.shape[0]
        name = tensor.name.split("switch_mlp.")[1]
        encoding = {"bits": 4, "groupSize": GROUP, "mode": "affine"}
        place = {"dtype": tensor.dtype, "shape": tensor.shape[1:], "offset": end, "size": size}
        sections.append({"name": name, **place, **encoding})
        end += size
    return {
        "expertCount": model.shape.num_experts,
        "layerCount": model.shape.num_hidden_layers,
        "expertStride": -(-end // STRIDE) * STRIDE,
        "sections": sections,
        "linearLayers": model.shape.linear_layers,
    }


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1))


def write_documents(model: Model, folder: Path) -> None:
    shape = model.shape
    write_json(folder / "config.json", config(shape))
    write_tokenizer(folder, shape.vocab_size, shape.first_special, shape.max_position_embeddings)
    script = token_script(model.topics, shape.first_special, SCRIPT_TOKENS, model.seed)
    (folder / "tokens.json").write_text(json.dumps(script))


def write_qpack(model: Model, folder: Path, hashed: bool) -> None:
    write_documents(model, folder)
    experts = folder / "packed_experts"
    experts.mkdir()
    plan = layout(model)
    write_json(experts / "layout.json", plan)
    hashes: dict[str, str] = {}
    for layer in range(model.shape.num_hidden_layers):
        path = experts / f"layer_{layer:02d}.bin"
        hashes[str(path.relative_to(folder))] = write_layer(path, model.experts(layer), plan["expertStride"], hashed)
        progress(f"layer {layer + 1} of {model.shape.num_hidden_layers}")
    resident = [tensor for tensors in model.resident() for tensor in tensors]
    hashes["model.safetensors"] = write_safetensors(folder / "model.safetensors", resident, hashed)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    if hashed:
        for path in files:
            name = str(path.relative_to(folder))
            hashes[name] = hashes.get(name) or hashlib.sha256(path.read_bytes()).hexdigest()
        write_json(folder / "hashes.json", {"files": hashes})
    write_json(
        folder / "manifest.json",
        {
            "magic": "QPACK",
            "version": 1,
            "modelName": model.shape.model_type,
            "sourceCheckpoint": f"synthetic, seed {model.seed}",
            "quantBits": 4,
            "quantGroupSize": GROUP,
            "files": {str(path.relative_to(folder)): path.stat().st_size for path in files},
        },
    )


def write_mlx(model: Model, folder: Path) -> None:
    write_documents(model, folder)
    tensors = [tensor for tensors in model.resident() for tensor in tensors]
    for layer in range(model.shape.num_hidden_layers):
        tensors += model.experts(layer)
    shards: list[list[Tensor]] = [[]]
    size = 0
    for tensor in tensors:
        if shards[-1] and size + tensor.nbytes > SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(tensor)
        size += tensor.nbytes
    index: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_safetensors(folder / name, shard, hashed=False)
        index |= {tensor.name: name for tensor in shard}
        progress(name)
    total = sum(tensor.nbytes for tensor in tensors)
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": index})


STARTED = time.monotonic()


def progress(what: str) -> None:
    print(f"[{time.monotonic() - STARTED:6.1f} s] {what}", file=sys.stderr, flush=True)


def needed_bytes(model: Model) -> int:
    plan = layout(model)
    resident = sum(tensor.nbytes for tensors in model.resident() for tensor in tensors)
    documents = 100 * model.shape.vocab_size
    return int(plan["layerCount"] * plan["expertCount"] * plan["expertStride"] + resident + documents)


def make(model: Model, folder: Path, form: str, hashed: bool) -> None:
    if folder.exists():
        sys.exit(f"{folder} exists; choose another path, or remove it with --delete")
    folder.parent.mkdir(parents=True, exist_ok=True)
    needed, free = needed_bytes(model), shutil.disk_usage(folder.parent).free
    if needed > free:
        sys.exit(f"{folder} needs {needed / 1e9:.1f} GB, but {free / 1e9:.1f} GB are free; write fewer --layers")
    folder.mkdir()
    (folder / MARKER).touch()
    if form == "qpack":
        write_qpack(model, folder, hashed)
    else:
        write_mlx(model, folder)
    progress(f"{folder}: {needed / 1e9:.2f} GB")


def delete(folder: Path) -> None:
    if not (folder / MARKER).is_file():
        sys.exit(f"{folder} was not made by this script (it has no {MARKER}); remove it by hand")
    shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write, to measure or to delete")
    parser.add_argument("--model", choices=MODELS, default="qwen3.6-35b")
    parser.add_argument("--format", choices=("qpack", "mlx"), default="qpack")
    parser.add_argument("--layers", type=int, default=0, help="write that many layers only")
    parser.add_argument("--experts", type=int, default=0, help="write that many experts a layer only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skew", type=float, default=1.0, help="scales the popularity of experts; 0: topics only")
    parser.add_argument("--hashes", action="store_true", help="write hashes.json")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--measure", action="store_true", help="run the first --layers (4) layers in numpy and report")
    action.add_argument("--delete", action="store_true", help="remove OUT, if it was made here")
    args = parser.parse_args()
    if args.delete:
        delete(args.out)
    elif args.measure:
        from numpy_forward import measure

        measure(args.out, args.layers or 4)
    else:
        shape = shape_of(args.model, args.layers, args.experts)
        make(Model(shape, args.seed, args.skew), args.out, args.format, args.hashes)


if __name__ == "__main__":
    main()
