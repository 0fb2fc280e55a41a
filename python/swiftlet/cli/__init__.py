"""The command line: swiftlet generate | chat | serve | info | bench | doctor | repack | verify.

Exit status: 0 if all went well, 1 for an unexpected failure, 2 for bad input or usage, 130 after Ctrl-C, and 141 (as
for other tools) when the reader of the output went away.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from swiftlet import SwiftletError, __version__

_COMMANDS = ("generate", "chat", "serve", "info", "bench", "doctor", "repack", "verify")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status. `argv` defaults to the process's arguments."""
    parser = argparse.ArgumentParser(
        prog="swiftlet",
        description="Runs Qwen3-Next and Qwen3.5 models in little memory by streaming experts from disk.",
    )
    parser.add_argument("--version", action="version", version=f"swiftlet {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        module = import_module(f"swiftlet.cli.{name}")
        module.add_parser(subparsers)
        subparsers.choices[name].set_defaults(run=module.run)
        subparsers.choices[name].add_argument("--debug", action="store_true", help="show the traceback of an error")
    args = parser.parse_args(argv)
    _never_fail_on_encoding()
    return _run(args)


def repack_main() -> int:
    """The command swiftlet-repack: short for `swiftlet repack`."""
    return main(["repack", *sys.argv[1:]])


def server_main() -> int:
    """The command swiftlet-server: short for `swiftlet serve`."""
    return main(["serve", *sys.argv[1:]])


def _run(args: argparse.Namespace) -> int:
    try:
        status: int = args.run(args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The interpreter flushes stdout once more on its way out; let it go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("\nswiftlet: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if args.debug:
            traceback.print_exc()
        if isinstance(error, SwiftletError):
            print(f"swiftlet: error: {error}", file=sys.stderr)
            return 2
        hint = "" if args.debug else " (--debug shows where)"
        print(f"swiftlet: unexpected error: {type(error).__name__}: {error}{hint}", file=sys.stderr)
        return 1


def _never_fail_on_encoding() -> None:
    """Characters that the terminal's encoding lacks become question marks."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
