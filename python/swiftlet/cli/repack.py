"""swiftlet repack: makes a container from a checkpoint."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

_DESCRIPTION = """\
Makes a .qpack container, which swiftlet runs, from the folder of a downloaded checkpoint of the qwen3_next or
qwen3_5_moe family: an MLX conversion (its quantized weights are kept byte for byte) or the original Hugging Face upload
(with --bits, its weights are quantized on the way). The container appears under its name only when it is complete.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("repack", help="make a container from a checkpoint", description=_DESCRIPTION)
    parser.add_argument("checkpoint", type=Path, help="folder with config.json and the safetensors files")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="CONTAINER",
        help="folder to make (default: the checkpoint's name with .qpack, here)",
    )
    parser.add_argument(
        "--bits", type=int, metavar="N", help="quantize an unquantized checkpoint to 2, 3, 4, 5, 6 or 8 bits a weight"
    )
    parser.add_argument(
        "--group-size",
        type=int,
        default=64,
        metavar="N",
        help="weights that share a scale: 32, 64 or 128 (default: 64)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the container if there is one of this name")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from swiftlet.cli.byte_progress import ByteProgress
    from swiftlet.repack import repack

    start = time.monotonic()
    container = args.output or Path(args.checkpoint.resolve().name + ".qpack")
    with ByteProgress() as progress:
        path = repack(
            args.checkpoint,
            container,
            bits=args.bits,
            group_size=args.group_size,
            overwrite=args.overwrite,
            progress=progress,
        )
    nbytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"{path}: {nbytes / 1e9:.2f} GB in {time.monotonic() - start:.0f} s")
    return 0
