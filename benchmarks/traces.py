"""Routing traces: which experts each layer asked for, chunk by chunk.

On disk a trace is JSON lines, one line a chunk, in the order the engine computed them:

    {"tokens": 1, "layers": {"0": [3, 17, 200], "1": [...]}}
    {"tokens": 512, "layers": {"0": [0, 1, 2, ...]}, "counts": {"0": [4, 19, 1, ...]}}

`tokens` is the number of tokens in the chunk, `layers` the ids each layer asked for (ascending, no repeats; a layer
without experts is left out). `counts`, optional and of the same shape, is how many of the chunk's tokens chose each id;
where it is missing every id counts once. A chunk of one token is a decode step.

The generators make traces that behave like published measurements of text (see docs/experiments.md): the score of
expert i of a layer at token t is

    popularity * g_i + topic * u_i(t) + w_i(t)

with g_i a normal draw a session, u_i a unit AR(1) process that forgets over `topic_tokens`, w_i a unit AR(1) process
with coefficient `rho`; a token takes the `top` highest. Layers are independent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]


@dataclass
class Chunk:
    """What one forward pass asked for. `requests` are (layer, ids, tokens of the chunk that chose each id)."""

    tokens: int
    requests: list[tuple[int, Ids, Ids]]
    guesses: list[Ids] = field(default_factory=list)  # a layer: ids in falling order of a look-ahead score


@dataclass
class Trace:
    layers: int
    experts: int  # a layer
    chunks: list[Chunk]

    @property
    def items(self) -> int:
        """Experts of the whole model; expert e of layer l is item l * experts + e."""
        return self.layers * self.experts


def read_trace(path: Path, experts: int) -> Trace:
    """A trace the engine recorded. Raises ValueError naming the line that does not fit the format."""
    chunks = []
    layers = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            record = json.loads(line)
            requests = []
            for layer, ids in sorted(record["layers"].items(), key=lambda entry: int(entry[0])):
                counts = record.get("counts", {}).get(layer, [1] * len(ids))
                if len(counts) != len(ids) or (ids and not 0 <= min(ids) <= max(ids) < experts):
                    raise ValueError(f"layer {layer}: an id outside 0..{experts - 1}, or counts that do not match")
                requests.append((int(layer), np.array(ids, np.int32), np.array(counts, np.int32)))
                layers = max(layers, int(layer) + 1)
            chunks.append(Chunk(int(record["tokens"]), requests))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not a routing trace ({error})") from error
    return Trace(layers, experts, chunks)


def write_trace(path: Path, trace: Trace) -> None:
    with path.open("w") as file:
        for chunk in trace.chunks:
            record: dict[str, object] = {
                "tokens": chunk.tokens,
                "layers": {str(layer): ids.tolist() for layer, ids, _ in chunk.requests},
            }
            if chunk.tokens > 1:
                record["counts"] = {str(layer): counts.tolist() for layer, _, counts in chunk.requests}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


@dataclass(frozen=True)
class Routing:
    """A model's shape and how its text behaves. `lookahead` scales the error of the next layer's guessed scores."""

    layers: int
    experts: int
    top: int
    popularity: float
    topic: float
    topic_tokens: float
    rho: float
    lookahead: float = 0.2


LIKE_35B = Routing(40, 256, 8, 0.55, 1.1, 80, 0.3)
LIKE_80B = Routing(48, 512, 10, 1.1, 0.7, 40, 0.3)


class Text:
    """The scores of a text token by token. `new_topic` and `new_session` break it off."""

    def __init__(self, routing: Routing, seed: int) -> None:
        self.routing = routing
        self._random = np.random.default_rng(seed)
        self._shape = (routing.layers, routing.experts)
        self.new_session()

    def _normal(self) -> NDArray[np.float32]:
        return self._random.standard_normal(self._shape, np.float32)

    def new_session(self) -> None:
        self._popularity = self._normal()
        self._noise = self._normal()
        self.new_topic()

    def new_topic(self) -> None:
        self._topic = self._normal()

    def scores(self) -> NDArray[np.float32]:
        """[layers, experts] of the next token."""
        r = self.routing
        keep = np.exp(-1 / r.topic_tokens)
        self._topic = np.float32(keep) * self._topic + np.float32(np.sqrt(1 - keep**2)) * self._normal()
        self._noise = np.float32(r.rho) * self._noise + np.float32(np.sqrt(1 - r.rho**2)) * self._normal()
        return np.float32(r.popularity) * self._popularity + np.float32(r.topic) * self._topic + self._noise

    def guessed(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the next layer's router says of this layer's input: the score with a heavy-tailed error."""
        return scores + np.float32(self.routing.lookahead) * self._random.standard_t(3, self._shape).astype(np.float32)


def top_ids(scores: NDArray[np.float32], top: int) -> NDArray[np.int32]:
    """[layers, top] ids of the highest scores, in no order."""
    return np.argpartition(-scores, top - 1, axis=1)[:, :top].astype(np.int32)


def decode(text: Text, tokens: int, guesses: int = 0) -> Iterator[Chunk]:
    """`tokens` chunks of one token; with `guesses`, that many look-ahead ids a layer."""
    once = np.ones(text.routing.top, np.int32)
    for _ in range(tokens):
        scores = text.scores()
        chosen = np.sort(top_ids(scores, text.routing.top), axis=1)
        chunk = Chunk(1, [(layer, ids, once) for layer, ids in enumerate(chosen)])
        if guesses:
            guessed = text.guessed(scores)
            best = top_ids(guessed, guesses).astype(np.intp)
            order = np.argsort(-np.take_along_axis(guessed, best, 1), axis=1)
            chunk.guesses = list(np.take_along_axis(best, order, 1).astype(np.int32))
        yield chunk


def prefill(text: Text, tokens: int, chunk_tokens: int) -> Iterator[Chunk]:
    """A prompt in chunks of at most `chunk_tokens`."""
    r = text.routing
    while tokens > 0:
        size = min(tokens, chunk_tokens)
        counts = np.zeros((r.layers, r.experts), np.int32)
        rows = np.arange(r.layers)[:, None]
        for _ in range(size):
            counts[rows, top_ids(text.scores(), r.top)] += 1
        requests = []
        for layer, row in enumerate(counts):
            ids = np.flatnonzero(row).astype(np.int32)
            requests.append((layer, ids, row[ids]))
        yield Chunk(size, requests)
        tokens -= size


def uniform(routing: Routing, tokens: int, seed: int) -> Iterator[Chunk]:
    """Every expert equally likely, each token anew: nothing to learn, the floor of every policy."""
    yield from decode(Text(Routing(routing.layers, routing.experts, routing.top, 0, 0, 1, 0), seed), tokens)


def loop(text: Text, tokens: int, period: int) -> Iterator[Chunk]:
    """The same `period` tokens again and again."""
    once = list(decode(text, period))
    for token in range(tokens):
        yield once[token % period]


def trace_of(routing: Routing, chunks: Iterable[Chunk]) -> Trace:
    return Trace(routing.layers, routing.experts, list(chunks))


def overlap(trace: Trace, span: int = 2) -> float:
    """Of `span` consecutive decode tokens: distinct experts over experts a token, mean over layers and places."""
    ratios = []
    steps = [chunk for chunk in trace.chunks if chunk.tokens == 1]
    for first in range(0, len(steps) - span + 1, span):
        window = steps[first : first + span]
        for parts in zip(*(chunk.requests for chunk in window), strict=True):
            ids = np.concatenate([part[1] for part in parts])
            ratios.append(len(np.unique(ids)) / len(parts[0][1]))
    return float(np.mean(ratios))
