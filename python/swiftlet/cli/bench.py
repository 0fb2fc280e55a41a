"""swiftlet bench: how fast prefill and decode run, and the disk."""

import argparse
import json
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from swiftlet import InputError
from swiftlet.cli.arguments import add_engine_arguments, load_engine
from swiftlet.cli.status_line import StatusLine

if TYPE_CHECKING:
    from swiftlet.engine import Engine
    from swiftlet.records import Stats

_DESCRIPTION = """\
Measures prefill and decode several times, each time on another part of a text and from an empty conversation; experts
stay in memory from one run to the next, as in use. Reports medians and the range. "bench io" reads random experts
and computes nothing: the most that the disk can give.
"""

# Ordinary prose, so that routing is like that of ordinary use.
_TEXT = """\
The harbour wakes before the town. Boats come in with the tide, and by the time the bakery opens its shutters, crates
of herring stand in rows along the quay, silver under a grey sky. An old man mends a net and counts the knots aloud; a
child asks him why, and he says that a net is only holes tied together, so somebody has to keep track. In the
afternoon the wind turns. The engineer who looks after the lighthouse climbs its 214 steps, checks the lamp, the
batteries and the radio, and writes three numbers into a book that her predecessor began in 1952. If the pressure
falls by more than 4 hPa in an hour, she calls the ferry office. How do they decide whether to sail? There is a rule,
of course: waves above two metres, wind above force seven, or fog so thick that the breakwater cannot be seen. But
rules leave room for judgement, and judgement comes from having been wrong before.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers the command."""
    parser = subparsers.add_parser("bench", help="measure prefill and decode, or the disk", description=_DESCRIPTION)
    parser.add_argument("what", nargs="?", choices=("model", "io"), default="model", help="default: model")
    parser.add_argument("-p", "--prompt-tokens", type=int, default=512, metavar="N", help="default: 512")
    parser.add_argument("-n", "--decode-tokens", type=int, default=64, metavar="N", help="default: 64")
    parser.add_argument("-r", "--repeats", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument("--warmup", type=int, default=1, metavar="N", help="runs before that do not count (default: 1)")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="length of a run of io (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with every run")
    add_engine_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    for name, least in (("prompt_tokens", 1), ("decode_tokens", 2), ("repeats", 1), ("warmup", 0), ("seconds", 0.01)):
        if getattr(args, name) < least:
            raise InputError(f"--{name.replace('_', '-')} is {getattr(args, name)}; it must be {least} or more")
    if args.what == "io":
        return _run_io(args)
    with load_engine(args) as engine:
        if args.prompt_tokens + args.decode_tokens > engine.context:
            raise InputError(f"prompt and answer need a context of {args.prompt_tokens + args.decode_tokens} or more")
        runs = measure(engine, args.prompt_tokens, args.decode_tokens, args.repeats, args.warmup)
        report = {"model": str(engine.path), "config": engine.config, "runs": [_figures(stats) for stats in runs]}
    if args.json:
        print(json.dumps(report))
    else:
        _print(report)
    return 0


def _run_io(args: argparse.Namespace) -> int:
    from swiftlet import _core
    from swiftlet.cli.report import print_table
    from swiftlet.memory import format_bytes
    from swiftlet.models import resolve

    path = str(resolve(args.model))
    with StatusLine("reading experts"):
        runs = [
            _core.bench_io(path, seconds=args.seconds, threads=args.io_threads, io=args.io) for _ in range(args.repeats)
        ]
    if args.json:
        print(json.dumps({"model": path, "io_threads": args.io_threads, "runs": runs}))
        return 0
    each = format_bytes(runs[0]["bytes"] / runs[0]["reads"])
    print(f"{path}: {runs[0]['io']} reads, {args.io_threads} in flight, {each} each")
    rates = [run["bytes"] / run["seconds"] for run in runs]
    rows = [["read a second", *(format_bytes(choose(rates)) for choose in (statistics.median, min, max))]]
    print_table(rows, ("", f"median of {len(runs)}", "least", "most"))
    return 0


def measure(engine: "Engine", prompt_tokens: int, decode_tokens: int, repeats: int, warmup: int) -> "list[Stats]":
    """Statistics of each run that counts. Every run has a prompt of its own, of exactly `prompt_tokens` tokens."""
    text = engine.encode(_TEXT, raw=True)
    ids = text * (2 + prompt_tokens // len(text))
    runs = []
    with StatusLine("measuring") as status:
        for i in range(warmup + repeats):
            status.update(f"run {i + 1} of {warmup + repeats}")
            start = i * 37 % len(text)
            engine.reset()
            # Sampled, for a greedy answer may repeat itself and its experts with it.
            completion = engine.complete(
                ids[start : start + prompt_tokens], max_tokens=decode_tokens, temperature=1, seed=i, ignore_eos=True
            )
            if i >= warmup:
                runs.append(completion.stats)
    return runs


def _figures(stats: "Stats") -> dict[str, float]:
    """What one run measured: rates in tokens a second, sizes in bytes."""
    steps = stats.completion_tokens - 1  # the first token comes out of the prefill
    return {
        "prefill_rate": stats.prefill_rate,
        "prefill_hit_rate": stats.prefill.hit_rate,
        "prefill_bytes_per_token": stats.prefill.bytes_read / stats.prompt_tokens,
        "decode_rate": stats.decode_rate,
        "decode_hit_rate": stats.decode.hit_rate,
        "decode_bytes_per_token": stats.decode.bytes_read / steps,
        "decode_host_bytes_per_token": stats.decode.host_bytes / steps,
        "decode_wait_share": stats.decode.wait_seconds / stats.decode_seconds,
    }


def _print(report: dict[str, Any]) -> None:
    from swiftlet.cli.report import print_table
    from swiftlet.memory import format_bytes

    lines: dict[str, tuple[str, Callable[[float], str]]] = {
        "prefill_rate": ("prefill", "{:.2f} tok/s".format),
        "prefill_hit_rate": ("  experts in memory", "{:.1%}".format),
        "prefill_bytes_per_token": ("  read a token", format_bytes),
        "decode_rate": ("decode", "{:.2f} tok/s".format),
        "decode_hit_rate": ("  experts in memory", "{:.1%}".format),
        "decode_bytes_per_token": ("  read a token", format_bytes),
        "decode_wait_share": ("  time spent waiting", "{:.1%}".format),
    }
    config, runs = report["config"], report["runs"]
    print(f"{report['model']}: {config['backend']}, {config['io']} reads, context {config['context']}")
    rows = []
    for name, (label, words) in lines.items():
        values = [figures[name] for figures in runs]
        rows.append([label, *(words(choose(values)) for choose in (statistics.median, min, max))])
    print_table(rows, ("", f"median of {len(runs)}", "least", "most"))
