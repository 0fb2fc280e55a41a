"""What a generation gives back: deltas on the way, a completion with statistics at the end."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-log probability of a generated token, and the likeliest tokens at its place with theirs."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer as it grows; str() gives its text.

    The texts of all deltas joined are the completion's text, and their token ids its token ids. A delta can hold
    several tokens (text is held back while a character is incomplete or a stop string may have begun), and the last
    one can have no text. `logprobs` has one entry a token, or is None when they were not asked for.
    """

    text: str
    token_ids: list[int]
    logprobs: list[TokenLogprob] | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ExpertStats:
    """Streaming of experts: `hits` were in memory when asked for, `misses` were not and had to be read.

    `reads` and `bytes_read` are those from disk, `host_hits` and `host_bytes` copies from host_memory instead.
    """

    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    reads: int = 0
    host_hits: int = 0
    host_bytes: int = 0
    evictions: int = 0
    guesses: int = 0
    guess_hits: int = 0
    wait_seconds: float = 0.0

    @property
    def hit_rate(self) -> float:
        """Share of the experts asked for that were in memory, 0 to 1; NaN if none was asked for."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else math.nan

    def __add__(self, other: "ExpertStats") -> "ExpertStats":
        return ExpertStats(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts and times of one generation. `cached_tokens` of the prompt were known already: not prefilled."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    prefill_seconds: float
    decode_seconds: float
    prefill: ExpertStats
    decode: ExpertStats

    @classmethod
    def from_core(cls, stats: Mapping[str, Any]) -> "Stats":
        """From the dict that the core's Generation.stats gives."""
        prefill, decode = (
            ExpertStats(**{f.name: stats[f.name][phase] for f in fields(ExpertStats)})
            for phase in ("prefill", "decode")
        )
        return cls(
            prompt_tokens=stats["prompt_tokens"],
            cached_tokens=stats["cached_tokens"],
            completion_tokens=stats["completion_tokens"],
            prefill_seconds=stats["prefill_seconds"],
            decode_seconds=stats["decode_seconds"],
            prefill=prefill,
            decode=decode,
        )

    @property
    def experts(self) -> ExpertStats:
        """Prefill and decode together."""
        return self.prefill + self.decode

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens a second, without the cached ones; NaN if there was nothing to prefill."""
        return _rate(self.prompt_tokens - self.cached_tokens, self.prefill_seconds)

    @property
    def decode_rate(self) -> float:
        """Generated tokens a second after the first, which comes out of the prefill; NaN for a single token."""
        return _rate(self.completion_tokens - 1, self.decode_seconds)


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer; str() gives its text.

    `finish_reason` is "stop" (an end token or a stop string), "length" (max_tokens or the context is used up) or
    "cancelled" (closed, interrupted or failed before the end). `stop_reason` is the stop string or the id of the end
    token that was met, else None. The end token is the last of `token_ids`, but no part of `text`. The same `seed` with
    the same settings repeats the answer.
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    stop_reason: str | int | None
    seed: int
    logprobs: list[TokenLogprob] | None
    stats: Stats

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values; rates that do not exist are None."""
        record = asdict(self)
        record["stats"] |= {
            "prefill_rate": _finite(self.stats.prefill_rate),
            "decode_rate": _finite(self.stats.decode_rate),
            "hit_rate": _finite(self.stats.experts.hit_rate),
        }
        return record


def _rate(count: int, seconds: float) -> float:
    return count / seconds if count > 0 and seconds > 0 else math.nan


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
