"""The C++ core. Everything here releases the GIL while it computes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class SwiftletError(Exception): ...
class InputError(SwiftletError, ValueError): ...
class ContainerError(SwiftletError): ...
class MemoryLimitError(SwiftletError): ...
class IoError(SwiftletError): ...
class NumericError(SwiftletError): ...
class CancelledError(SwiftletError): ...

def cpu_isas() -> list[str]:
    """Names the CPU backend accepts on this machine, best first; the last is "reference"."""

def backends() -> list[str]:
    """Backends of this build that work on this machine, the best first."""

def plan(
    path: str,
    *,
    memory: int = 0,
    context: int = 0,
    kv: str = "f16",
    chunk: int = 0,
    state_memory: int | None = None,
    backend: str = "auto",
    host_memory: int = 0,
) -> dict[str, Any]:
    """The memory plan of a container without loading it, in bytes.

    Keys: ceiling, process (what the process holds already), resident (weights), state (KV rows and DeltaNet states),
    snapshots (states of other conversations and of earlier turns), scratch, overhead, pool, slots, slot_bytes,
    experts_total, context, chunk, smallest (the least ceiling that works), host and host_slots (host memory for experts
    beside a card's, which is not part of the ceiling), text (the sum in words).
    Raises MemoryLimitError if `memory` or `host_memory` cannot work, InputError for `host_memory` on a backend without
    memory of its own.
    """

def check_container(path: str) -> None:
    """Raises ContainerError unless manifest, layout, sizes and links of the container are in order."""

def bench_io(path: str, *, seconds: float = 3.0, threads: int = 8, io: str = "auto") -> dict[str, Any]:
    """Raw reads of random experts by `threads` threads, without pool and compute: reads, bytes, seconds, io."""

class SamplingParams:
    """How the next token is chosen. Fields are read when a generation starts."""

    max_tokens: int
    temperature: float  # 0: greedy
    top_p: float  # 1: off
    top_k: int  # 0: off
    min_p: float  # 0: off
    repetition_penalty: float  # 1: off
    presence_penalty: float
    frequency_penalty: float
    seed: int
    logprobs: int  # -1: none, n >= 0: of the token and of the n likeliest
    ignore_eos: bool
    logit_bias: dict[int, float]
    stop_token_ids: list[int]  # besides the model's end tokens

    def __init__(self) -> None: ...

class Token:
    id: int
    logprob: float  # natural log; NaN when not asked for
    top_logprobs: list[tuple[int, float]]
    finish_reason: str | None  # "stop" (an end token: id is that token), "length", or None: more follow

class Session:
    """The state of one conversation: tokens seen, KV rows, conv tails, DeltaNet states."""

    @property
    def position(self) -> int: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def valid(self) -> bool:
        """False after a chunk was cut off by an error or a cancel: reset() before forward(); generate() needs none."""
    def reset(self) -> None: ...

class Generation:
    """An iterator over the tokens of one answer."""

    def next(self, interrupt: Callable[[], bool] | None = None, mask: NDArray[np.uint32] | None = None) -> Token:
        """The next token, out of those that `mask` allows: a bit each, the lowest of the first word for id 0.

        The first call also prefills; several times a second pending signals are handled meanwhile (Ctrl-C raises
        KeyboardInterrupt) and `interrupt` is asked: True raises CancelledError, and an exception of its own goes
        through. Either way the next generation starts from a snapshot, or anew."""
    @property
    def prefill_progress(self) -> float:
        """How much of the prefill is done, 0 to 1 (an `interrupt` may look at it)."""
    @property
    def stats(self) -> dict[str, Any]:
        """prompt_tokens, cached_tokens, completion_tokens, prefill_seconds, decode_seconds, and of the streaming:
        hits, misses, bytes_read, reads, host_hits, host_bytes, evictions, guesses, guess_hits, wait_seconds, each as
        {"prefill": n, "decode": n}."""

class Engine:
    """A loaded model."""

    def __init__(
        self,
        path: str,
        *,
        memory: int = 0,
        context: int = 0,
        kv: str = "f16",
        chunk: int = 0,
        backend: str = "auto",
        threads: int = 0,
        isa: str = "auto",
        io: str = "auto",
        io_threads: int = 8,
        host_memory: int = 0,
        pool_slots: int = 0,
        prefetch: str = "auto",
        watch_pressure: bool = False,
        trace: str = "",
        state_memory: int | None = None,
        state_dir: str = "",
        state_disk: int = ...,
    ) -> None: ...
    @property
    def plan(self) -> dict[str, Any]: ...
    @property
    def config(self) -> dict[str, Any]:
        """model_type, vocab_size, hidden_size, num_hidden_layers, num_experts, num_experts_per_tok, context,
        max_position_embeddings, eos_token_ids, backend, io."""
    @property
    def stats(self) -> dict[str, Any]:
        """Streaming totals since loading; dispatches, commits and waits of a GPU; and in bytes: pool_bytes (of slots in
        memory now), pool_budget, slot_bytes, host_memory, resident_set_bytes and peak_resident_set_bytes (of the
        process). Of states: snapshots (in memory), snapshot_bytes, snapshots_on_disk, snapshot_disk_bytes."""
    def session(self) -> Session: ...
    def generate(
        self,
        session: Session,
        ids: Sequence[int],
        params: SamplingParams,
        boundaries: Sequence[tuple[int, bool]] = (),
    ) -> Generation:
        """Tokens that follow `ids`, the whole prompt. What follows the longest known prefix is prefilled: the session's
        tokens or a snapshot's. Snapshots are taken at the boundaries: (tokens before it, whether a later boundary will
        soon replace it). One generation at a time in a session."""
    def save_states(self, session: Session) -> None:
        """Keeps the session's state as a snapshot, and writes all snapshots to state_dir, if there is one."""
    def forget(self) -> None:
        """Drops all snapshots, also those in state_dir."""
    def take_warnings(self) -> list[str]:
        """What went wrong with snapshots since the last call: sentences for people."""
    def forward(
        self,
        session: Session,
        ids: Sequence[int],
        *,
        capture: bool = False,
        interrupt: Callable[[], bool] | None = None,
    ) -> dict[str, Any]:
        """Feeds ids to the session. Returns logits [T, vocab] f32 of every position; with `capture` also
        embed [T, hidden], layers [L, T, hidden], router_indices and router_weights (list of [T, k] or None)."""
    def state(self, session: Session, layer: int) -> dict[str, NDArray[np.float32]]:
        """conv [K-1, C] and state [Hv, Dv, Dk], or keys and values [position, kv heads, head_dim], as f32."""
    def set_memory(self, memory: int) -> None:
        """A new ceiling for the process, from any thread: the pool shrinks or may grow between tokens."""
    def relieve_pressure(self) -> int:
        """Halves the pool (not below its minimum) and gives the memory back; returns the bytes given back. The pool
        doubles again every 10 seconds of computing without a further call, up to what the ceiling allows."""
