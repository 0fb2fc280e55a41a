"""Replays routing traces against replacement policies for the pool of experts.

    policy_simulator.py study                      the tables of docs/experiments.md (synthetic traces)
    policy_simulator.py replay TRACE --experts 256 a trace the engine recorded (format: traces.py)

A pool of `slots` experts is shared by all layers. A request names the experts one layer needs for one chunk; those that
are resident are hits, the others are read, each into the slot of the resident expert with the lowest score. As in the
engine, the hits of a chunk are computed first and only the experts in use are pinned, so a prefill chunk may need more
experts than there are slots.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from traces import Trace

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
        self.score[item] = math.floor(self.score[item]) + 1 + self._clock * 2.0**-32

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
    """How a chunk is counted. What an expert's use adds, and how far the decay's clock moves, in tokens."""

    add: Callable[[int], float]  # of the number of the chunk's tokens that chose the expert
    clock: Callable[[int, float], float]  # of the chunk's tokens, and of experts asked for over experts a token asks for


ONCE = Counting(add=lambda chose: 1.0, clock=lambda tokens, asked: asked)


class LfuDecay(Policy):
    """LFU whose counts halve every `half_life` tokens.

    Not the counts shrink, the increment grows: a use at clock c is worth 2^(c / half_life). So order among idle items
    never changes, and of two items with as many uses the later used wins. Scores are kept as their base-2 logarithm,
    which cannot overflow.
    """

    def __init__(
        self, items: int, half_life: float, token_accesses: int, counting: Counting = ONCE, ghosts: bool = True
    ) -> None:
        self.score = [-math.inf] * items
        self._half_life, self._token_accesses = half_life, token_accesses
        self._counting, self._ghosts = counting, ghosts
        self._clock = 0.0

    def begin(self, tokens: int, accesses: int) -> None:
        self._clock += self._counting.clock(tokens, accesses / self._token_accesses)

    def use(self, item: int, count: int, resident: bool) -> None:
        new = self._clock / self._half_life + math.log2(self._counting.add(count))
        old = self.score[item]
        high, low = (new, old) if new > old else (old, new)
        self.score[item] = high + math.log2(1 + 2.0 ** (low - high))

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

    def _evict(self, pinned: Sequence[int]) -> None:
        heap, score = self._heap, self.policy.score
        aside = []
        while True:
            old, item = heapq.heappop(heap)
            if not self.resident[item]:
                continue
            if old != score[item]:
                if self.policy.rising:
                    heapq.heappush(heap, (score[item], item))
            elif item in pinned:
                aside.append((old, item))
            else:
                break
        for entry in aside:
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
