"""Makes the tables on the pool's policy in docs/experiments.md, from synthetic traces.

    policy_study.py [steady | prefill | lookahead]

Ten layers instead of forty or forty-eight: hit rates are the same to within a point, and it takes minutes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from policy_simulator import (
    SHARES,
    Belady,
    Counting,
    Lfu,
    LfuAging,
    LfuDecay,
    Lru,
    Policy,
    Pool,
    decode_hits,
    replay,
)
from traces import LIKE_35B, LIKE_80B, Chunk, Routing, Text, Trace, decode, loop, prefill, trace_of, uniform

LAYERS = 10
WARM = 200
TEXT_35B, TEXT_80B = replace(LIKE_35B, layers=LAYERS), replace(LIKE_80B, layers=LAYERS)
# The same hit rates under LRU as LIKE_35B, but with favourites that last: published figures do not tell which is right.
STABLE_35B = replace(TEXT_35B, popularity=1.0, topic=0.75, topic_tokens=50)
HALF_LIFE = 16  # the choice
HALF_LIVES = (4, 8, 12, 16, 32, 64, 300)


def steady_traces() -> Iterator[tuple[str, Routing, Trace]]:
    """Name, routing, trace of single tokens."""
    for name, routing in (("35B text", TEXT_35B), ("35B, stable", STABLE_35B), ("80B text", TEXT_80B)):
        yield name, routing, trace_of(routing, decode(Text(routing, 1), 1000))
    for name, change in (("35B, new topic each 200", Text.new_topic), ("35B, new session each 300", Text.new_session)):
        text = Text(TEXT_35B, 2)
        chunks: list[Chunk] = []
        for _ in range(4):
            chunks += decode(text, 200 if change is Text.new_topic else 300)
            change(text)
        yield name, TEXT_35B, trace_of(TEXT_35B, chunks)
    yield "35B, loop of 44", TEXT_35B, trace_of(TEXT_35B, loop(Text(TEXT_35B, 3), 600, 44))
    yield "35B, uniform", TEXT_35B, trace_of(TEXT_35B, uniform(TEXT_35B, 600, 4))


def policies(trace: Trace, routing: Routing) -> dict[str, Callable[[], Policy]]:
    a_token = routing.layers * routing.top
    named: dict[str, Callable[[], Policy]] = {
        "LRU": partial(Lru, trace.items),
        "LFU": partial(Lfu, trace.items),
        "LFU, no ghosts": partial(Lfu, trace.items, ghosts=False),
        "LFUDA": partial(LfuAging, trace.items),
    }
    for half_life in HALF_LIVES:
        named[f"decay {half_life}"] = partial(LfuDecay, trace.items, half_life, a_token)
    named[f"decay {HALF_LIFE}, no ghosts"] = partial(LfuDecay, trace.items, HALF_LIFE, a_token, ghosts=False)
    for half_life in (HALF_LIFE, 64):
        spare = partial(LfuDecay, trace.items, half_life, a_token, spare_latest=trace.experts)
        named[f"decay {half_life}, latest spared"] = spare
    named["optimum"] = partial(Belady, trace)
    return named


def row(name: str, rates: list[float]) -> None:
    print(f"| {name} |" + "".join(f" {100 * rate:.1f} |" for rate in rates), flush=True)


def header(first: str, columns: list[str]) -> None:
    print(f"\n| {first} |" + "".join(f" {column} |" for column in columns))
    print("|---|" + "---|" * len(columns))


def steady() -> None:
    for name, routing, trace in steady_traces():
        header(name, [f"{share:.0%}" for share in SHARES])
        for policy, make in policies(trace, routing).items():
            row(policy, [decode_hits(trace, share, make(), WARM) for share in SHARES])
        row(f"decay {HALF_LIFE}, a pool a layer", [per_layer_hits(trace, routing, share) for share in SHARES])


def per_layer_hits(trace: Trace, routing: Routing, share: float) -> float:
    slots = int(routing.experts * share)
    # A pool sees one layer's uses only; its policy is told of every item but scores its own.
    pools = [Pool(slots, LfuDecay(trace.items, HALF_LIFE, routing.layers * routing.top)) for _ in range(routing.layers)]
    return float(np.mean(replay(trace, pools)[WARM:]))


# How a chunk of a prompt should count. In decode all of these are the same.
COUNTINGS = {
    "once, clock 1 a chunk": Counting(lambda chose: 1.0, lambda tokens, asked: 1.0),
    "once, clock by accesses": Counting(lambda chose: 1.0, lambda tokens, asked: asked),
    "once, clock by tokens": Counting(lambda chose: 1.0, lambda tokens, asked: float(tokens)),
    "log2(1 + tokens), clock 1": Counting(lambda chose: math.log2(1 + chose), lambda tokens, asked: 1.0),
    "log2(1 + tokens), by accesses": Counting(lambda chose: math.log2(1 + chose), lambda tokens, asked: asked),
    "at most 4, clock 1": Counting(lambda chose: float(min(chose, 4)), lambda tokens, asked: 1.0),
    "sqrt(tokens), clock 1": Counting(lambda chose: math.sqrt(chose), lambda tokens, asked: 1.0),
    "tokens, clock 1": Counting(float, lambda tokens, asked: 1.0),
    "tokens, clock by accesses": Counting(float, lambda tokens, asked: asked),
    "tokens, clock by tokens": Counting(float, lambda tokens, asked: float(tokens)),
}


def prompt_traces() -> Iterator[tuple[str, Trace]]:
    for size in (512, 2048):
        text = Text(TEXT_35B, 5)
        yield (
            f"prompt of 2048 in chunks of {size}, then decode",
            trace_of(TEXT_35B, [*prefill(text, 2048, size), *decode(text, 256)]),
        )
    text = Text(TEXT_35B, 6)
    chunks: list[Chunk] = []
    for turn in (1024, 256, 256):
        chunks += [*prefill(text, turn, 2048), *decode(text, 200)]
    yield "chat: prompts of 1024, 256, 256, each answered with 200", trace_of(TEXT_35B, chunks)


def prefill_counting() -> None:
    for name, trace in prompt_traces():
        header(f"{name}: decode hits", [f"{share:.0%}" for share in SHARES] + [f"first 16: {s:.0%}" for s in SHARES])
        a_token = TEXT_35B.layers * TEXT_35B.top
        makers: dict[str, Callable[[], Policy]] = {"LRU": partial(Lru, trace.items)}
        for half_life in (HALF_LIFE, 64):
            for counting, rule in COUNTINGS.items():
                makers[f"{half_life}: {counting}"] = partial(LfuDecay, trace.items, half_life, a_token, rule)
        makers["optimum"] = partial(Belady, trace)
        for policy, make in makers.items():
            whole, first = zip(*(after_prompts(trace, share, make()) for share in SHARES), strict=True)
            row(policy, [*whole, *first])


def after_prompts(trace: Trace, share: float, policy: Policy, first: int = 16) -> tuple[float, float]:
    """Decode hits: all, and of the first tokens after each prompt."""
    rates = replay(trace, [Pool(int(trace.items * share), policy)])
    since = 0
    everything, early = [], []
    for rate, chunk in zip(rates, trace.chunks, strict=True):
        since = since + 1 if chunk.tokens == 1 else 0
        if since:
            everything.append(rate)
            if since <= first:
                early.append(rate)
    return float(np.mean(everything)), float(np.mean(early))


@dataclass(frozen=True)
class Times:
    """Of one layer in decode, ms: the mixer before the router, the experts after it, and the read of one expert."""

    mixer: float
    experts: float
    read: float


@dataclass
class Run:
    """What a decode run with look-ahead came to, each per token."""

    hits: float  # share of the experts asked for
    reads: float
    time: float  # ms


def lookahead_run(trace: Trace, share: float, width: int, times: Times, guarded: bool) -> Run:
    """Decode with guesses of the next layer's experts, read while the disk has nothing better to do.

    The disk reads one expert after the other, those needed now first; guesses that have not begun when the next router
    has spoken are dropped, one that is under way counts as a miss. A guess takes the slot of the coldest resident;
    `guarded`: unless that one would still be the hotter if the guess came true.
    """
    a_token = sum(len(ids) for _, ids, _ in trace.chunks[0].requests)
    policy = LfuDecay(trace.items, HALF_LIFE, a_token)
    pool = Pool(int(trace.items * share), policy)
    now = disk = start = 0.0  # when the last layer was done, when the disk is free, when counting began
    hits = asked = reads = 0
    queue: list[int] = []
    wanted: list[int] = []
    for number, chunk in enumerate(trace.chunks):
        if number == WARM:
            hits = asked = reads = 0
            start = now
        policy.begin(1, a_token)
        for layer, ids, _ in chunk.requests:
            router = now + times.mixer
            landing = -1
            for item in queue:
                if disk >= router:
                    break
                if not pool.resident[item] and (not guarded or may_replace(pool, policy, item)):
                    pool.load(item, wanted)
                    disk += times.read
                    reads += 1
                    landing = item if disk > router else -1
            wanted = [layer * trace.experts + expert for expert in ids.tolist()]
            missed = [item for item in wanted if not pool.resident[item]]
            disk = max(disk, router) + times.read * len(missed)
            hits += len(wanted) - len(missed) - (landing in wanted)
            asked += len(wanted)
            reads += len(missed)
            now = router + times.experts
            if missed or landing in wanted:
                now = max(now, disk)
            for item in wanted:
                policy.use(item, 1, pool.resident[item])
            for item in missed:
                pool.load(item, wanted)
            guesses = chunk.guesses[layer + 1][:width] if layer + 1 < trace.layers else ()
            queue = [(layer + 1) * trace.experts + int(expert) for expert in guesses]
    tokens = len(trace.chunks) - WARM
    return Run(hits / asked, reads / tokens, (now - start) / tokens)


def may_replace(pool: Pool, policy: LfuDecay, item: int) -> bool:
    """Whether the guess, once it came true, would be hotter than the coldest resident."""
    return bool(pool.free) or policy.after_use(item) >= pool.coldest()


def guess_quality(trace: Trace, share: float, width: int) -> tuple[float, float, float]:
    """Of experts that are not resident: recall and precision of the `width` best guesses, and reads a layer."""
    a_token = sum(len(ids) for _, ids, _ in trace.chunks[0].requests)
    policy = LfuDecay(trace.items, HALF_LIFE, a_token)
    pool = Pool(int(trace.items * share), policy)
    right = wanted_absent = guessed_absent = layers = 0
    for number, chunk in enumerate(trace.chunks):
        policy.begin(1, a_token)
        for layer, ids, _ in chunk.requests:
            base = layer * trace.experts
            absent = {expert for expert in ids.tolist() if not pool.resident[base + expert]}
            guessed = {g for g in chunk.guesses[layer][:width].tolist() if not pool.resident[base + g]}
            if number >= WARM:
                right += len(absent & guessed)
                wanted_absent += len(absent)
                guessed_absent += len(guessed)
                layers += 1
            for expert in ids.tolist():
                policy.use(base + expert, 1, pool.resident[base + expert])
            pinned = [base + expert for expert in ids.tolist()]
            for expert in absent:
                pool.load(base + expert, pinned)
    return right / max(1, wanted_absent), right / max(1, guessed_absent), guessed_absent / layers


MACHINES = {  # a layer of a 35B: 1.1 GB of dense weights and 0.57 GB of experts over 40 layers
    "disk 1 GB/s, memory 23 GB/s": Times(mixer=1.2, experts=0.6, read=1.77),
    "disk 3 GB/s, memory 60 GB/s": Times(mixer=0.46, experts=0.24, read=0.59),
    "disk 6 GB/s, memory 120 GB/s": Times(mixer=0.23, experts=0.12, read=0.30),
}


def lookahead() -> None:
    for model, routing in (("35B", TEXT_35B), ("80B", TEXT_80B)):
        trace = trace_of(routing, decode(Text(routing, 7), 600, guesses=12))
        header(f"{model}: guesses not resident, top", ["share", "recall", "precision", "reads a layer"])
        for width in (4, 8, 12):
            for share in SHARES:
                recall, precision, reads = guess_quality(trace, share, width)
                print(f"| {width} | {share:.0%} | {recall:.0%} | {precision:.0%} | {reads:.2f} |", flush=True)
        for machine, times in MACHINES.items():
            header(f"{model}, {machine}: tok/s (hits; reads a token)", [f"{share:.0%}" for share in SHARES])
            for width, guarded in ((0, False), (2, False), (2, True), (4, False), (4, True), (8, False), (8, True)):
                cells = []
                for share in SHARES:
                    run = lookahead_run(trace, share, width, times, guarded)
                    scale = routing_layers(model) / LAYERS
                    cells.append(f"{1000 / (run.time * scale):.1f} ({run.hits:.0%}; {run.reads * scale:.0f})")
                guess = f"top {width}{', guarded' if guarded else ''}" if width else "none"
                print(f"| {guess} | " + " | ".join(cells) + " |", flush=True)


def routing_layers(model: str) -> int:
    return (LIKE_35B if model == "35B" else LIKE_80B).layers


def main() -> None:
    studies = {"steady": steady, "prefill": prefill_counting, "lookahead": lookahead}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=studies)
    chosen = parser.parse_args().study
    for name, study in studies.items():
        if chosen in (None, name):
            study()


if __name__ == "__main__":
    main()
