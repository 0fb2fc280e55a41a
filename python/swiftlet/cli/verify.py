"""swiftlet verify: checks a container, and compares it with its checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

_SHOWN = 20  # problems; the rest is counted

_DESCRIPTION = """\
Checks the structure of a container, the size of every file and, where the container has hashes, the SHA-256 of every
file. With --source, every tensor and every expert is also compared with the checkpoint's, byte for byte. The exit
status is 2 if anything is wrong.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("verify", help="check a container", description=_DESCRIPTION)
    parser.add_argument("container", help='path of a container, or "demo"')
    parser.add_argument("--source", type=Path, metavar="CHECKPOINT", help="folder of the checkpoint it was made from")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from swiftlet.cli.byte_progress import ByteProgress
    from swiftlet.models import resolve
    from swiftlet.repack import verify

    with ByteProgress() as progress:
        result = verify(resolve(args.container), args.source, progress=progress)
    for problem in result.problems[:_SHOWN]:
        print(problem)
    if len(result.problems) > _SHOWN:
        print(f"... and {len(result.problems) - _SHOWN} more")
    checked = ["structure", "sizes"]
    checked += ["hashes"] if result.hashed else []
    checked += ["every byte against the checkpoint"] if result.compared else []
    count = len(result.problems)
    verdict = "all is well" if result.ok else f"{count} problem{'s' if count > 1 else ''}"
    print(f"{result.container}: {result.files} files, {result.bytes:,} bytes; checked {', '.join(checked)}: {verdict}")
    if not result.hashed:
        print("There is no hashes.json, so changed bytes cannot be found without --source.")
    return 0 if result.ok else 2
