"""One answer on its way: an iterator of deltas, and the completion at its end."""

import threading
from collections.abc import Callable, Iterator
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from swiftlet import _core
from swiftlet.records import Completion, Delta, FinishReason, Stats, TokenLogprob
from swiftlet.stream import TextStream

PrefillProgress = Callable[[int, int], None]


class Constraint(Protocol):
    """Which tokens may come next: asked before each token, told after it. swiftlet.grammar makes such."""

    def mask(self) -> NDArray[np.uint32] | None:
        """A bit a token, the lowest of the first word for id 0; None: all may come."""

    def accept(self, id: int) -> None:
        """This token was chosen."""


class Stream(Iterator[Delta]):
    """Iterates over the deltas of one answer; made by Engine.generate.

    The first delta costs the prefill of the prompt. Ctrl-C raises KeyboardInterrupt between two layers of the prefill
    or between two tokens. After the last delta, `result` is the Completion. Leaving early is fine: close the stream,
    use it in a `with` statement or just drop it.
    """

    def __init__(
        self,
        generation: _core.Generation,
        lock: threading.RLock,
        text: TextStream,
        params: _core.SamplingParams,
        on_prefill: PrefillProgress | None = None,
        constraint: Constraint | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._generation: _core.Generation | None = generation
        self._lock = lock
        self._text = text
        self._seed = params.seed
        self._wants_logprobs = params.logprobs >= 0
        self._on_prefill = on_prefill
        self._constraint = constraint
        self._on_end = on_end
        self._cancelled = False
        self._superseded = False
        self._pieces: list[str] = []
        self._ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._result: Completion | None = None

    def __next__(self) -> Delta:
        with self._lock:
            if self._cancelled:
                self._end("cancelled")
            if self._generation is not None:
                try:
                    return self._advance(self._generation)
                except _core.CancelledError:
                    self._end("cancelled")
                except BaseException:
                    self._end("cancelled")
                    raise
            if self._superseded and self.result.finish_reason == "cancelled":
                raise _core.InputError("this answer was ended because the engine was asked for another one")
            raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the answer, from any thread: a token or a prefill that is under way in another one stops first."""
        self._cancelled = True
        with self._lock:
            self._end("cancelled")

    def supersede(self) -> None:
        """Like close, but a later next() raises InputError: another generation has taken the session."""
        self._superseded = self._superseded or self.open
        self.close()

    @property
    def open(self) -> bool:
        """True until the last delta came or the stream was closed."""
        return self._generation is not None

    @property
    def result(self) -> Completion:
        """The completion, once the stream has ended. Raises InputError before."""
        if self._result is None:
            raise _core.InputError("the answer is not finished; iterate to its end, or close the stream")
        return self._result

    def _advance(self, generation: _core.Generation) -> Delta:
        """Tokens until there is text to show, or the last one."""
        first = len(self._ids)
        text = ""
        finish: FinishReason | None = None
        stop_reason: str | int | None = None
        while not text and finish is None:
            token = self._next_token(generation)
            self._ids.append(token.id)
            if self._wants_logprobs:
                self._logprobs.append(TokenLogprob(token.id, token.logprob, tuple(token.top_logprobs)))
            if token.finish_reason == "stop":
                finish, stop_reason = "stop", token.id
                continue
            text = self._text.push(token.id)
            if self._text.stopped is not None:
                finish, stop_reason = "stop", self._text.stopped
            elif token.finish_reason is not None:
                finish = "length"
        if finish is not None:
            text += self._text.finish()
        self._pieces.append(text)
        if finish is not None:
            self._end(finish, stop_reason)
        return Delta(text, self._ids[first:], self._logprobs[first:] if self._wants_logprobs else None)

    def _next_token(self, generation: _core.Generation) -> _core.Token:
        if self._constraint is None:
            return generation.next(self._interrupt)
        token = generation.next(self._interrupt, self._constraint.mask())
        if token.finish_reason != "stop":
            self._constraint.accept(token.id)
        return token

    def _interrupt(self) -> bool:
        """Asked by the core several times a second during a prefill."""
        if self._on_prefill is not None and self._generation is not None:
            stats = self._generation.stats
            cached, total = stats["cached_tokens"], stats["prompt_tokens"]
            self._on_prefill(cached + int(self._generation.prefill_progress * (total - cached)), total)
        return self._cancelled

    def _end(self, reason: FinishReason, stop_reason: str | int | None = None) -> None:
        """Makes the completion and frees the core for the next generation; nothing if that has happened already."""
        if self._generation is None:
            return
        self._result = Completion(
            text="".join(self._pieces),
            token_ids=self._ids,
            finish_reason=reason,
            stop_reason=stop_reason,
            seed=self._seed,
            logprobs=self._logprobs if self._wants_logprobs else None,
            stats=Stats.from_core(self._generation.stats),
        )
        self._generation = None
        on_end, self._on_end = self._on_end, None  # it may hold the core
        if on_end is not None:
            on_end()
