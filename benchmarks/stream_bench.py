"""Prefill and decode of a synthetic container under a memory ceiling: peak memory, speed, hit rate, bytes, waits.

    stream_bench.py CONTAINER --memory 2.4GB [--prompt 256] [--decode 256] [--repeat 1]

The tokens come from the container's tokens.json, a text with the skew and the locality of real routing, and are fed as
they stand there: what the model would say itself loops. The first half of the decode warms the pool; both halves are
reported. Prints one JSON object a run. Of a token's time, `wait` is what the computing thread had nothing to do in but
wait for a read, `compute` is the rest, and `disk` is what the bytes read take at the bandwidth that `--disk` states: in
decode only shared and resident experts can compute under the reads, so wait comes near to disk.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from swiftlet import _core
from swiftlet.memory import parse_bytes


def phase(engine: _core.Engine, before: dict[str, Any], seconds: float, tokens: int, disk: float) -> dict[str, Any]:
    """Figures of what happened since `before`."""
    now = engine.stats
    keys = ("hits", "misses", "bytes_read", "wait_seconds", "guesses", "guess_hits")
    change = {key: now[key] - before[key] for key in keys}
    asked = change["hits"] + change["misses"]
    compute = seconds - change["wait_seconds"]
    return {
        "tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 3),
        "hit_rate": round(change["hits"] / asked, 4) if asked else None,
        "bytes_per_token": round(change["bytes_read"] / tokens),
        "wait_ms_per_token": round(1e3 * change["wait_seconds"] / tokens, 2),
        "compute_ms_per_token": round(1e3 * compute / tokens, 2),
        "disk_ms_per_token": round(1e3 * change["bytes_read"] / disk / tokens, 2),
        "guesses": change["guesses"],
        "guess_hits": change["guess_hits"],
    }


def run(args: argparse.Namespace) -> dict[str, Any]:
    ids = json.loads((args.container / "tokens.json").read_text())
    if len(ids) < args.prompt + args.decode:
        raise SystemExit(f"tokens.json has {len(ids)} tokens, fewer than --prompt and --decode ask for")
    engine = _core.Engine(
        str(args.container),
        memory=parse_bytes(args.memory),
        context=args.context or args.prompt + args.decode + 1,
        chunk=args.chunk,
        threads=args.threads,
        io=args.io,
        io_threads=args.io_threads,
        prefetch=args.prefetch,
        trace=args.trace,
    )
    session = engine.session()
    params = _core.SamplingParams()
    params.max_tokens, params.temperature = 1, 0.0
    result: dict[str, Any] = {"memory": args.memory, "plan": {k: v for k, v in engine.plan.items() if k != "text"}}
    result |= {"backend": engine.config["backend"], "io": engine.config["io"], "prefetch": args.prefetch}

    before, start = engine.stats, time.perf_counter()
    engine.generate(session, ids[: args.prompt], params).next()
    result["prefill"] = phase(engine, before, time.perf_counter() - start, args.prompt, args.disk)

    half = args.decode // 2
    for name, first, last in (("decode_cold", 0, half), ("decode_warm", half, args.decode)):
        before, start = engine.stats, time.perf_counter()
        for id in ids[args.prompt + first : args.prompt + last]:
            engine.forward(session, [id])
        result[name] = phase(engine, before, time.perf_counter() - start, last - first, args.disk)
    result["peak_resident_set"] = engine.stats["peak_resident_set_bytes"]
    result["under_the_ceiling"] = result["peak_resident_set"] <= result["plan"]["ceiling"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("container", type=Path)
    parser.add_argument("--memory", default="2.4GB")
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--decode", type=int, default=256)
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--io", default="auto")
    parser.add_argument("--io-threads", type=int, default=8)
    parser.add_argument("--prefetch", default="off", choices=("off", "auto", "on"))
    parser.add_argument("--trace", default="")
    parser.add_argument("--disk", type=float, default=1e9, help="bandwidth in bytes a second (default: 1e9)")
    print(json.dumps(run(parser.parse_args()), indent=1))


if __name__ == "__main__":
    main()
