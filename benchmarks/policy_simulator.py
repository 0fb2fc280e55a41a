"""Replays routing traces against replacement policies for the pool of experts.

    policy_simulator.py TRACE --experts 256 --top 8

TRACE is what the engine recorded (format: traces.py); policy_study.py makes the tables of docs/experiments.md from
synthetic ones.

A pool of `slots` experts is shared by all layers. A request names the experts one layer needs for one chunk; those that
are resident are hits, the others are read, each into the slot of the resident expert with the lowest score. As in the
engine, the hits of a chunk are computed first and only the experts in use are pinned, so a prefill chunk may need more
experts than there are slots.
"""

from __future__ import annotations

import argparse
import heapq
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from traces import Trace, read_trace

SHARES = (0.06, 0.12, 0.24, 0.36, 0.5)

IN_FLIGHT = 16  # experts of one request that are pinned together: a decode step's, or the reads under way in prefill


class Policy:
    """Scores items; the lowest score among the residents goes. Scores that never fall let the pool's heap be lazy."""

    rising = True

    def __init__(self, items: int) -> None:
        self.score = [0.0] * items

    def begin(self, tokens: int, accesses: int) -> None:
        """A chunk begins: `tokens` tokens, `accesses` experts asked for."""

    def use(self, item: int, count: int, resident: bool) -> None:
        """The chunk asked for an item that `count` of its tokens chose."""
        raise NotImplementedError

    def evicted(self, item: int) -> None:
        """The item lost its slot."""

    def spared(self, item: int) -> bool:
        """Whether the item keeps its slot as long as another can be had, whatever its score."""
        return False


class Lru(Policy):
    def __init__(self, items: int) -> None:
        super().__init__(items)
        self._clock = 0.0

    def use(self, item: int, count: int, resident: bool) -> None:
        self._clock += 1
        self.score[item] = self._clock


class Lfu(Policy):
    """Least frequently used, ties by recency. `ghosts`: an evicted item keeps its count."""

    def __init__(self, items: int, ghosts: bool = True) -> None:
        super().__init__(items)
        self._ghosts = ghosts
        self._clock = 0

    def use(self, item: int, count: int, resident: bool) -> None:
        self._clock += 1
        self.score[item] = math.floor(self.score[item]) + 1 + self._clock * 2.0**-32  # the fraction breaks ties

    def evicted(self, item: int) -> None:
        if not self._ghosts:
            self.score[item] = 0.0


class LfuAging(Policy):
    """LFU with dynamic aging: a resident's score is its count since it was loaded plus the score of the last victim."""

    def __init__(self, items: int) -> None:
        super().__init__(items)
        self._count = [0] * items
        self._age = 0.0

    def use(self, item: int, count: int, resident: bool) -> None:
        self._count[item] = self._count[item] + 1 if resident else 1
        self.score[item] = self._age + self._count[item]

    def evicted(self, item: int) -> None:
        self._age = self.score[item]


@dataclass(frozen=True)
class Counting:
    """How a chunk counts: what a use adds, and how far the clock of the decay moves. A single token: 1 in both."""

    add: Callable[[int], float]  # of the number of the chunk's tokens that chose the expert
    clock: Callable[[int, float], float]  # of the chunk's tokens, and of its accesses over those of one token


ONCE = Counting(add=lambda chose: 1.0, clock=lambda tokens, asked: 1.0)  # as cpp/experts/policy.h counts


class LfuDecay(Policy):
    """LFU whose counts halve every `half_life` ticks of the clock, which are tokens in decode.

    Not the counts shrink, the increment grows: a use at clock c is worth 2^(c / half_life). So order among idle items
    never changes, and of two items with as many uses the later used wins. Of items used in the same chunks only, the
    one used last goes first, since it is needed again last. Scores are kept as their base-2 logarithm, which cannot
    overflow.
    """

    def __init__(
        self,
        items: int,
        half_life: float,
        token_accesses: int,
        counting: Counting = ONCE,
        ghosts: bool = True,
        spare_latest: int = 0,
    ) -> None:
        """`spare_latest`: with that many experts a layer, those that a layer's latest chunk used are spared."""
        self.score = [-math.inf] * items
        self._experts = spare_latest
        self._chunk = 0
        self._latest: dict[int, int] = {}  # by item, and by ~layer: the latest chunk that used it
        self._half_life, self._token_accesses = half_life, token_accesses
        self._counting, self._ghosts = counting, ghosts
        self._clock = 0.0
        self._order = 0.0

    def begin(self, tokens: int, accesses: int) -> None:
        self._clock += self._counting.clock(tokens, accesses / self._token_accesses)
        self._order = 0.0
        self._chunk += 1

    def use(self, item: int, count: int, resident: bool) -> None:
        self._order += 1e-9
        if self._experts:
            self._latest[item] = self._latest[~(item // self._experts)] = self._chunk
        new = self._clock / self._half_life + math.log2(self._counting.add(count)) - self._order
        old = self.score[item]
        high, low = (new, old) if new > old else (old, new)
        self.score[item] = high + math.log2(1 + 2.0 ** (low - high))

    def spared(self, item: int) -> bool:
        return self._experts > 0 and self._latest[item] == self._latest[~(item // self._experts)]

    def after_use(self, item: int) -> float:
        """The score the item would have, had it been used in this chunk."""
        new, old = self._clock / self._half_life, self.score[item]
        return max(new, old) + math.log2(1 + 2.0 ** -abs(new - old))

    def evicted(self, item: int) -> None:
        if not self._ghosts:
            self.score[item] = -math.inf


class Belady(Policy):
    """The optimum: out goes what is needed again last. Knows the trace, so it is a ceiling and no policy."""

    rising = False

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.items)
        next_use = [math.inf] * trace.items
        coming = []  # for each use, last to first, when the item is used again
        clock = 0
        for chunk in reversed(trace.chunks):
            for layer, ids, _ in reversed(chunk.requests):
                clock += 1
                for expert in reversed(ids.tolist()):
                    item = layer * trace.experts + expert
                    coming.append(next_use[item])
                    next_use[item] = -clock
        self._coming = coming

    def use(self, item: int, count: int, resident: bool) -> None:
        self.score[item] = -self._coming.pop()


class Pool:
    """Slots shared by all items. The heap holds for each resident an entry that is its score, or was once."""

    def __init__(self, slots: int, policy: Policy) -> None:
        self.policy = policy
        self.free = slots
        self.resident = [False] * len(policy.score)
        self._heap: list[tuple[float, int]] = []

    def load(self, item: int, pinned: Sequence[int]) -> None:
        """Brings an item in, in place of the lowest resident that is not pinned."""
        if self.free:
            self.free -= 1
        else:
            self._evict(pinned)
        self.resident[item] = True
        heapq.heappush(self._heap, (self.policy.score[item], item))

    def touched(self, item: int) -> None:
        """The score of a resident has changed."""
        if not self.policy.rising:
            heapq.heappush(self._heap, (self.policy.score[item], item))

    def coldest(self) -> float:
        """The lowest score of a resident, for policies whose scores rise."""
        heap, score = self._heap, self.policy.score
        while True:
            old, item = heap[0]
            if self.resident[item] and old == score[item]:
                return old
            heapq.heappop(heap)
            if self.resident[item]:
                heapq.heappush(heap, (score[item], item))

    def _evict(self, pinned: Sequence[int]) -> None:
        heap, score = self._heap, self.policy.score
        aside: list[tuple[float, int]] = []
        spared: list[tuple[float, int]] = []
        while True:
            if not heap:
                if not spared:
                    raise ValueError("the pool is too small for the experts that are in use at once")
                old, item = spared.pop(0)
                break
            old, item = heapq.heappop(heap)
            if not self.resident[item]:
                continue
            if old != score[item]:
                if self.policy.rising:
                    heapq.heappush(heap, (score[item], item))
            elif item in pinned:
                aside.append((old, item))
            elif self.policy.spared(item):
                spared.append((old, item))
            else:
                break
        for entry in aside + spared:
            heapq.heappush(heap, entry)
        self.resident[item] = False
        self.policy.evicted(item)


def replay(trace: Trace, pools: Sequence[Pool]) -> list[float]:
    """Hits of each chunk, as a share of the experts it asked for. One pool for all layers, or one a layer."""
    shares = []
    for chunk in trace.chunks:
        asked = sum(len(ids) for _, ids, _ in chunk.requests)
        hits = 0
        for pool in pools:
            pool.policy.begin(chunk.tokens, asked)
        for layer, ids, counts in chunk.requests:
            pool = pools[layer % len(pools)]
            resident, use = pool.resident, pool.policy.use
            base = layer * trace.experts
            missed = []
            present = []
            for expert, count in zip(ids.tolist(), counts.tolist(), strict=True):
                item = base + expert
                if resident[item]:
                    present.append(item)
                    use(item, count, True)
                    pool.touched(item)
                else:
                    missed.append(item)
                    use(item, count, False)
            hits += len(present)
            # In decode everything a layer asked for is pinned; in prefill the hits have been computed before the
            # misses land, and only the latest reads are pinned.
            pinned = present if len(ids) <= IN_FLIGHT else []
            for item in missed:
                pool.load(item, pinned)
                pinned = [*pinned, item][-IN_FLIGHT:]
        shares.append(hits / asked)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, metavar="TRACE")
    parser.add_argument("--experts", type=int, required=True, help="of a layer")
    parser.add_argument("--top", type=int, required=True, help="experts a token takes in each layer")
    parser.add_argument("--warm", type=int, default=0, help="chunks that fill the pool and are not counted")
    parser.add_argument("--half-life", type=float, nargs="+", default=[8, 16, 32, 64, 128, 300])
    args = parser.parse_args()
    try:
        trace = read_trace(args.trace, args.experts)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    policies: dict[str, Callable[[], Policy]] = {
        "LRU": lambda: Lru(trace.items),
        "LFU": lambda: Lfu(trace.items),
        "LFUDA": lambda: LfuAging(trace.items),
    }
    for half_life in args.half_life:
        policies[f"decay {half_life:g}"] = partial(LfuDecay, trace.items, half_life, trace.layers * args.top)
    policies["optimum"] = lambda: Belady(trace)
    print(f"{len(trace.chunks)} chunks, {trace.layers} layers; hits in decode with this share of the experts resident")
    print(f"{'':10}" + "".join(f"{share:7.0%}" for share in SHARES))
    for name, policy in policies.items():
        try:
            rates = [decode_hits(trace, share, policy(), args.warm) for share in SHARES]
        except ValueError as error:
            sys.exit(f"{args.trace}: {error}")
        print(f"{name:10}" + "".join(f"{rate:7.1%}" for rate in rates), flush=True)


def decode_hits(trace: Trace, share: float, policy: Policy, warm: int = 0) -> float:
    """Hits of the decode steps after the first `warm` chunks, with one pool that holds `share` of all experts."""
    rates = replay(trace, [Pool(int(trace.items * share), policy)])
    decode = [rate for rate, chunk in zip(rates[warm:], trace.chunks[warm:], strict=True) if chunk.tokens == 1]
    return sum(decode) / len(decode) if decode else math.nan


if __name__ == "__main__":
    main()
