"""Arguments that several commands share, and what is made of them."""

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from swiftlet.cli.status_line import StatusLine

if TYPE_CHECKING:
    from swiftlet.engine import AnswerOptions, Engine


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """How a model is loaded."""
    group = parser.add_argument_group("model")
    group.add_argument("-m", "--model", default="demo", metavar="PATH", help='container, or "demo" (the default)')
    add_plan_arguments(group)
    group.add_argument("--threads", type=int, metavar="N", help="compute threads of the CPU (default: one a core)")
    group.add_argument("--isa", default="auto", metavar="NAME", help="instruction set (default: auto, the best)")
    group.add_argument(
        "--io",
        default="auto",
        choices=("auto", "direct", "buffered"),
        help="read experts past the page cache or through it (default: auto, whichever is faster)",
    )
    group.add_argument("--io-threads", type=int, default=8, metavar="N", help="reads in flight (default: 8)")
    group.add_argument(
        "--prefetch",
        default="auto",
        choices=("off", "auto", "on"),
        help="read experts that the next layer is likely to want (default: auto, while it pays)",
    )
    group.add_argument("--watch-pressure", action="store_true", help="give memory back while the system is short of it")
    group.add_argument("--trace", metavar="FILE", help="record which experts were asked for, as JSON lines")
    group.add_argument("-v", "--verbose", action="store_true", help="print the memory plan")


def add_plan_arguments(group: argparse._ActionsContainer) -> None:
    """What the memory plan depends on."""
    group.add_argument(
        "--memory", metavar="SIZE", help="ceiling for the whole process, like 4GB (default: what the machine can spare)"
    )
    group.add_argument("--context", type=int, metavar="N", help="most tokens of prompt and answer together")
    group.add_argument(
        "--kv", default="f16", choices=("f16", "f32", "int8"), help="how keys and values are kept (default: f16)"
    )
    group.add_argument(
        "--chunk", type=int, metavar="N", help="prompt tokens prefilled together (default: as memory permits)"
    )
    group.add_argument(
        "--state-memory",
        metavar="SIZE",
        help="part of the ceiling for states of other conversations and earlier turns; 0: none (default: a small part)",
    )
    group.add_argument(
        "--host-memory",
        metavar="SIZE",
        help="with cuda: host memory for experts that the card has no room for (default: none)",
    )
    group.add_argument(
        "--backend", default="auto", metavar="NAME", help="cpu, metal or cuda (default: auto, the best there is)"
    )


def add_state_arguments(parser: argparse.ArgumentParser) -> None:
    """Where conversations are kept."""
    group = parser.add_argument_group("conversations")
    group.add_argument(
        "--state-dir", metavar="FOLDER", help="keep states of conversations here, for the next start too"
    )
    group.add_argument("--state-disk", default="8GB", metavar="SIZE", help="the most they may take (default: 8GB)")


def load_engine(args: argparse.Namespace) -> "Engine":
    """The engine that the arguments of add_engine_arguments describe."""
    with StatusLine(f"loading {args.model}"), _interruptible():
        from swiftlet.engine import Engine

        engine = Engine(
            args.model,
            memory=args.memory,
            context=args.context,
            kv=args.kv,
            chunk=args.chunk,
            backend=args.backend,
            threads=args.threads,
            isa=args.isa,
            io=args.io,
            io_threads=args.io_threads,
            host_memory=args.host_memory,
            prefetch=args.prefetch,
            watch_pressure=args.watch_pressure,
            trace=args.trace,
            state_memory=args.state_memory,
            # Commands without add_state_arguments keep nothing.
            state_dir=vars(args).get("state_dir"),
            state_disk=vars(args).get("state_disk", "8GB"),
        )
    if args.verbose:
        print(engine.plan["text"], file=sys.stderr)
    return engine


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C end the process at once while the core loads: there is nothing to clean up yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """How an answer is made."""
    group = parser.add_argument_group("answer", "Defaults come from the model's generation_config.json.")
    group.add_argument("-n", "--max-tokens", type=int, metavar="N", help="the longest answer")
    group.add_argument("-t", "--temperature", type=float, metavar="T", help="0: always the likeliest token")
    group.add_argument("--top-p", type=float, metavar="P", help="keep the likeliest tokens with this total probability")
    group.add_argument("--top-k", type=int, metavar="K", help="keep this many of the likeliest tokens; 0: all")
    group.add_argument(
        "--min-p", type=float, metavar="P", help="keep tokens with this share of the highest probability"
    )
    group.add_argument("--repetition-penalty", type=float, metavar="X", help="1: off")
    group.add_argument("--presence-penalty", type=float, metavar="X", help="0: off")
    group.add_argument("--frequency-penalty", type=float, metavar="X", help="0: off")
    group.add_argument("--seed", type=int, metavar="N", help="repeats an answer (default: random)")
    group.add_argument("--stop", action="append", metavar="TEXT", help="end before this text; may be repeated")
    group.add_argument("--system", metavar="TEXT", help="system prompt")
    group.add_argument(
        "--think",
        action=argparse.BooleanOptionalAction,
        help="let the model think first, or not (default: the template's choice)",
    )


def sampling_options(args: argparse.Namespace) -> "AnswerOptions":
    """Options of Engine.generate from the arguments of add_sampling_arguments, without system prompt and thinking."""
    return {
        "max_tokens": args.max_tokens,
        "temperature": args.temperature,
        "top_p": args.top_p,
        "top_k": args.top_k,
        "min_p": args.min_p,
        "repetition_penalty": args.repetition_penalty,
        "presence_penalty": args.presence_penalty,
        "frequency_penalty": args.frequency_penalty,
        "seed": args.seed,
        "stop": args.stop,
    }
