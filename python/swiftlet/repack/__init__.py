"""Makes .qpack containers from checkpoints, and checks them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .layout import layout_json, safetensors_header
from .plan import CONFIG, LAYOUT, RESIDENT, Plan, Quantization, Work, layer_file, make_plan
from .source import Reader, open_checkpoint
from .verify import Problem, VerifyResult, verify
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
    target = Path(container)
    check_target(target, overwrite=overwrite)
    plan = make_plan(open_checkpoint(Path(checkpoint)), Quantization(bits, group_size) if bits is not None else None)
    header, offsets = safetensors_header(plan.resident_specs())
    layout = layout_json(plan.dimensions.num_experts, plan.dimensions.linear_layers, plan.layouts)
    resident_bytes = len(header) + sum(spec.nbytes for spec in plan.resident_specs())
    total = resident_bytes + sum(item.source.nbytes for item in plan.documents)
    total += sum(plan.dimensions.num_experts * of_layer.stride for of_layer in plan.layouts)

    with Reader() as reader, staging(target, total + _JSON_RESERVE, overwrite=overwrite) as stage:
        done = 0

        def fill(file: OutputFile, name: str, work: Iterable[Work]) -> None:
            nonlocal done

            def write(part: Work) -> int:
                made = part.produce(reader)
                for _, offset, data in made:
                    file.write(offset, data)
                return sum(len(data) for _, _, data in made)

            for nbytes in in_threads(write, work):
                done += nbytes
                if progress:
                    progress(min(done, total), total, name)

        for item in plan.documents:
            with stage.file(item.name, item.source.nbytes) as file:
                fill(file, item.name, (Work(piece, (0,)) for piece in item.pieces()))
        if plan.config is not None:
            stage.document(CONFIG, plan.config)
        with stage.file(RESIDENT, resident_bytes) as file:
            file.write(0, header)
            fill(file, RESIDENT, plan.resident_work(offsets))
        stage.document(LAYOUT, _json(layout))
        for layer, of_layer in enumerate(plan.layouts):
            if of_layer.stride:
                with stage.file(layer_file(layer), plan.dimensions.num_experts * of_layer.stride) as file:
                    fill(file, layer_file(layer), plan.layer_work(layer, of_layer))
        stage.document("hashes.json", _json({"files": dict(sorted(stage.hashes.items()))}))
        stage.document("manifest.json", _json(_manifest(plan, stage)))
    if progress:
        progress(total, total, target.name)
    return target


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _manifest(plan: Plan, stage: Staging) -> dict[str, Any]:
    gate = next(matrices for matrices in plan.experts if matrices)[0]
    return {
        "magic": "QPACK",
        "version": 1,
        "modelName": plan.dimensions.model_type,
        "sourceCheckpoint": plan.checkpoint.folder.resolve().name,
        "quantBits": gate.encoding.bits,
        "quantGroupSize": gate.encoding.group_size,
        "format": {"writer": "swiftlet", "quantMode": gate.encoding.mode, "quantizedByWriter": gate.quantized_here},
        "files": dict(sorted(stage.sizes.items())),
    }
