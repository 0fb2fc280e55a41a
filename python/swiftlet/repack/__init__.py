"""Makes .qpack containers from checkpoints, and checks them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .encoding import Quantization
from .layout import layout_json, safetensors_header
from .pieces import Work
from .plan import CONFIG, LAYOUT, RESIDENT, Plan, layer_file, make_plan
from .source import Reader, open_checkpoint
from .verify import HASHES, MANIFEST, Problem, VerifyResult, verify
from .work import Progress, in_threads
from .writer import OutputFile, Staging, check_target, staging

__all__ = ["Problem", "Progress", "VerifyResult", "repack", "verify"]

_JSON_RESERVE = 1 << 20  # bytes for manifest.json and hashes.json, whose sizes are not known before


def repack(
    checkpoint: str | Path,
    container: str | Path,
    *,
    bits: int | None = None,
    group_size: int = 64,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Makes a container from the folder of a checkpoint, and returns its path.

    The checkpoint is in the MLX or the Hugging Face layout, quantized or not. Its bytes are kept; with `bits` (2, 3, 4,
    5, 6 or 8), the matrices of an unquantized one are quantized as an MLX conversion would do it, in groups of
    `group_size` (32, 64 or 128). `progress` is called with bytes written, bytes in all and the file in work.

    The container appears under its name only when it is complete; after an error, nothing is left. Raises InputError
    (arguments, an existing target), ContainerError (the checkpoint) or IoError (the disk).
    """
    target = Path(container).resolve()
    check_target(target, overwrite=overwrite)
    plan = make_plan(open_checkpoint(Path(checkpoint)), Quantization(bits, group_size) if bits is not None else None)
    files = list(_files(plan))
    finished, total = 0, sum(file.nbytes for file in files)
    with Reader() as reader, staging(target, total + _JSON_RESERVE, overwrite=overwrite) as stage:
        for file in files:
            with stage.file(file.name, file.nbytes) as output:
                output.write(0, file.head)
                done = finished
                for nbytes in in_threads(partial(_write, reader, output), file.work):
                    done += nbytes
                    if progress:
                        progress(done, total, file.name)
            finished += file.nbytes
        stage.document(HASHES, _json({"files": dict(sorted(stage.hashes.items()))}))
        stage.document(MANIFEST, _json(_manifest(plan, stage)))
        if progress:
            progress(total, total, MANIFEST)
    return target


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the container: its first bytes, and the work that makes the rest."""

    name: str
    nbytes: int
    head: bytes = b""
    work: Iterable[Work] = ()


def _files(plan: Plan) -> Iterator[_File]:
    for item in plan.documents:
        yield _File(item.name, item.source.nbytes, work=(Work(piece, (0,)) for piece in item.pieces()))
    if plan.config is not None:
        yield _File(CONFIG, len(plan.config), plan.config)
    specs = plan.resident_specs()
    header, offsets = safetensors_header(specs)
    nbytes = len(header) + sum(spec.nbytes for spec in specs)
    yield _File(RESIDENT, nbytes, header, plan.resident_work(offsets))
    experts = plan.dimensions.num_experts
    layout = _json(layout_json(experts, plan.dimensions.linear_layers, plan.layouts))
    yield _File(LAYOUT, len(layout), layout)
    for layer, of_layer in enumerate(plan.layouts):
        if of_layer.stride:
            yield _File(layer_file(layer), experts * of_layer.stride, work=plan.layer_work(layer, of_layer))


def _write(reader: Reader, output: OutputFile, work: Work) -> int:
    """Produces and writes one piece; returns its bytes."""
    made = work.produce(reader)
    for _, offset, data in made:
        output.write(offset, data)
    return sum(len(data) for _, _, data in made)


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _manifest(plan: Plan, stage: Staging) -> dict[str, Any]:
    gate = next(matrices for matrices in plan.experts if matrices)[0].encoding
    details: dict[str, Any] = {"writer": "swiftlet", "quantMode": gate.mode}
    if plan.quantization:
        details["quantizedByWriter"] = {"bits": plan.quantization.bits, "groupSize": plan.quantization.group_size}
    return {
        "magic": "QPACK",
        "version": 1,
        "modelName": plan.dimensions.model_type,
        "sourceCheckpoint": plan.checkpoint.folder.resolve().name,
        "quantBits": gate.bits,
        "quantGroupSize": gate.group_size,
        "format": details,
        "files": dict(sorted(stage.sizes.items())),
    }
