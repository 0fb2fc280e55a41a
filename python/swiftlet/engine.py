"""A loaded model that answers."""

import logging
import numbers
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from swiftlet import _core
from swiftlet.chat_template import ChatTemplate, Message
from swiftlet.generation import Constraint, PrefillProgress, Stream
from swiftlet.memory import parse_bytes
from swiftlet.models import read_json, resolve
from swiftlet.nvrtc import announce_nvrtc
from swiftlet.prompt import Prompt, PromptEncoder, PromptOptions, PromptTooLong
from swiftlet.records import Completion
from swiftlet.sampling import SamplingOptions, defaults_of, sampling_params
from swiftlet.stream import TextStream
from swiftlet.thinking import begins_thinking
from swiftlet.tokenizer import Tokenizer


class AnswerOptions(SamplingOptions, PromptOptions, total=False):
    """What an answer is like: prompt, sampling and where it stops."""

    stop: str | Sequence[str] | None
    """The answer ends before the first of these texts, which is not part of it. In thoughts that the chat template has
    begun they do not count."""


class GenerateOptions(AnswerOptions, total=False):
    """Everything that Engine.generate and Engine.complete take by name."""

    on_prefill: PrefillProgress | None
    """Called now and then during the prefill with the prompt tokens done and their total."""
    constraint: Constraint | None
    """Only tokens that it allows are chosen: see swiftlet.grammar. Not together with ignore_eos."""


_log = logging.getLogger("swiftlet")
announce_nvrtc()


class Engine:
    """A model loaded from a container.

    It remembers conversations: of a prompt only what follows the longest beginning that it knows is prefilled. How many
    it keeps side by side depends on state_memory and state_dir.

    One answer is made at a time. All methods may be called from any thread: complete() and logits() wait for each
    other, and each of them, like generate(), ends an older stream that is still open.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = "demo",
        *,
        memory: int | str | None = None,
        context: int | None = None,
        kv: str = "f16",
        chunk: int | None = None,
        backend: str = "auto",
        threads: int | None = None,
        isa: str = "auto",
        io: str = "auto",
        io_threads: int = 8,
        host_memory: int | str | None = None,
        pool_slots: int | None = None,
        prefetch: str = "auto",
        watch_pressure: bool = False,
        trace: str | os.PathLike[str] | None = None,
        state_memory: int | str | None = None,
        state_dir: str | os.PathLike[str] | None = None,
        state_disk: int | str = "8GB",
    ) -> None:
        """Loads a model.

        model: path of a container, or "demo" for the small one that is installed with the package.
        memory: ceiling for the whole process, in bytes or as text ("4GB", "2.6 GB", "512MiB"). Default: what the
            machine can spare.
        context: most tokens of prompt and answer together. Default: what the model allows, within reason.
        kv: how keys and values are kept: "f16", "f32" or "int8".
        chunk: tokens of a prompt that are prefilled together. Default: as memory permits.
        backend: what computes: "cpu", or a GPU that swiftlet._core.backends() names; "auto" is the best of them.
        threads: compute threads of the CPU backend. Default: one a core.
        isa: instruction set of the CPU backend, one of swiftlet._core.cpu_isas(), or "auto".
        io: how experts are read: "direct" (past the page cache), "buffered", or "auto" to find out which is faster.
        io_threads: reads in flight.
        host_memory: on a card with memory of its own, of which `memory` is the ceiling then: host memory, pinned, for
            experts that the card has no room for, in bytes or as text. They are copied from there instead of read.
            Default: none.
        pool_slots: the most experts in memory. Default: as many as the ceiling allows.
        prefetch: whether decode reads experts that the next layer is likely to want: "on", "off", or "auto" (while it
            is measured to pay).
        watch_pressure: give memory back when the system runs short of it.
        trace: a file to record the routing in, as JSON lines.
        state_memory: the part of the ceiling for states of other conversations and of earlier turns; 0: none. Default:
            a small part.
        state_dir: a folder that keeps those which memory cannot hold, and all of them when the engine is closed. It is
            made if it does not exist. The files hold what was said: token ids, and what can be computed from them.
        state_disk: the most that they may take there.

        What goes wrong with a state on disk is logged (logger "swiftlet") and costs no more than a longer prefill.

        Raises InputError for arguments, ContainerError for a damaged container, MemoryLimitError if the ceiling cannot
        work.
        """
        self.path = resolve(model)
        _core.check_container(str(self.path))  # before anything in it is opened
        self.tokenizer = Tokenizer(self.path)
        generation_config = self.path / "generation_config.json"
        self._defaults = defaults_of(read_json(generation_config), str(generation_config))
        template = ChatTemplate(self.path)
        core = _core.Engine(
            str(self.path),
            memory=0 if memory is None else parse_bytes(memory),
            context=_count("context", context),
            kv=kv,
            chunk=_count("chunk", chunk),
            backend=backend,
            threads=_count("threads", threads),
            isa=isa,
            io=io,
            io_threads=_count("io_threads", io_threads),
            host_memory=_optional_bytes(host_memory, "host_memory"),
            pool_slots=_count("pool_slots", pool_slots),
            prefetch=prefetch,
            watch_pressure=watch_pressure,
            trace="" if trace is None else os.fspath(trace),
            state_memory=_state_memory(state_memory),
            state_dir="" if state_dir is None else os.fspath(Path(state_dir).expanduser()),
            state_disk=parse_bytes(state_disk, "state_disk"),
        )
        session = core.session()
        self._loaded: tuple[_core.Engine, _core.Session] | None = (core, session)
        # Also when the engine is dropped or the interpreter ends.
        self._save = weakref.finalize(self, _save_states, core, session) if state_dir is not None else None
        config = core.config
        self._encode = PromptEncoder(
            self.tokenizer, template, config["vocab_size"], config["eos_token_ids"], config["context"]
        )
        _log_warnings(core)
        self.turn = threading.RLock()
        """Whoever holds it may begin something, and nobody else ends what they began."""
        self._lock = threading.RLock()  # who is in the core; taken after turn
        self._stream: weakref.ref[Stream] | None = None

    def generate(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Stream:
        """Begins an answer; the Stream that comes back yields it as Deltas and has the Completion at the end.

        A prompt is text (one user message, or with raw=True plain text to continue), a list of messages ({"role": ...,
        "content": ...}) or a list of token ids. SamplingOptions, PromptOptions, AnswerOptions describe the options.
        Raises InputError before any work if a value is wrong or the prompt does not fit into the context.
        """
        unknown = options.keys() - GenerateOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"generate() got an unexpected keyword argument {min(unknown)!r}")
        if options.get("constraint") is not None and options.get("ignore_eos"):
            raise _core.InputError("ignore_eos does not go with a constraint: an answer that fits ends there")
        stop = _stop_strings(options.get("stop"))
        ids = self._encode(prompt, options)
        boundaries = self._encode.boundaries(prompt, options, ids)
        params = sampling_params(options, self._defaults, room=self._room(ids), vocab_size=self.config["vocab_size"])
        # A stop string that is itself a special token never shows up in the text.
        params.stop_token_ids = [
            id for s in stop if (id := self.tokenizer.added_tokens.get(s)) in self.tokenizer.special_ids
        ]
        end_of_prompt = self.tokenizer.decode(ids[-4:], skip_special=False)
        in_thoughts = not options.get("raw", False) and begins_thinking(end_of_prompt)
        with self.turn:
            core, session = self._take()
            stream = Stream(
                core.generate(session, ids, params, boundaries),
                self._lock,
                TextStream(self.tokenizer, stop, in_thoughts=in_thoughts),
                params,
                on_prefill=options.get("on_prefill"),
                constraint=options.get("constraint"),
                on_end=lambda: _log_warnings(core),
            )
            self._stream = weakref.ref(stream)
        return stream

    def check(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> int:
        """Raises what generate() would raise for these arguments; otherwise the number of tokens of the prompt."""
        _stop_strings(options.get("stop"))
        ids = self._encode(prompt, options)
        sampling_params(options, self._defaults, room=self._room(ids), vocab_size=self.config["vocab_size"])
        return len(ids)

    def complete(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> Completion:
        """The whole answer in one go; arguments and errors as for generate()."""
        with self.turn, self.generate(prompt, **options) as stream:
            for _ in stream:
                pass
            return stream.result

    def logits(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Logits [len(ids), vocab_size], f32, of every position of a text given as token ids, for evaluation.

        Starts from an empty state. Of the latest answer nothing is kept.
        """
        checked = self._encode.checked_ids(ids)
        self._room(checked)
        with self.turn:
            core, session = self._take()
            with self._lock:
                session.reset()
                try:
                    logits: NDArray[np.float32] = core.forward(session, checked)["logits"]
                finally:
                    session.reset()
        return logits

    def render(self, prompt: str | Sequence[Message], **options: Unpack[PromptOptions]) -> str:
        """The text that the chat template makes of a user message or a list of messages."""
        return self._encode.render(prompt, options)

    def encode(self, prompt: Prompt, **options: Unpack[PromptOptions]) -> list[int]:
        """The token ids of a prompt as generate() would use them."""
        return self._encode(prompt, options)

    def reset(self) -> None:
        """Forgets all conversations, also those on disk: the next prompt is prefilled from its first token."""
        with self.turn:
            core, session = self._take()
            with self._lock:
                core.forget()
                session.reset()

    def save_states(self) -> None:
        """Writes what only memory has of the conversations to state_dir; close() does it too."""
        with self.turn:
            core, session = self._take()
            with self._lock:
                core.save_states(session)
            _log_warnings(core)

    @property
    def plan(self) -> dict[str, Any]:
        """The memory plan in bytes, as described at swiftlet._core.plan."""
        return self._model.plan

    @property
    def config(self) -> dict[str, Any]:
        """The model's dimensions and how it runs: context, vocab_size, num_experts, backend, io, ..."""
        return self._model.config

    @property
    def stats(self) -> dict[str, Any]:
        """Streaming totals since loading, and the pool's size now."""
        return self._model.stats

    @property
    def context(self) -> int:
        """Most tokens of prompt and answer together."""
        return int(self.config["context"])

    def set_memory(self, memory: int | str) -> None:
        """A new ceiling for the process, also during an answer. Raises MemoryLimitError if it cannot work."""
        self._model.set_memory(parse_bytes(memory))

    def relieve_pressure(self) -> int:
        """Halves the memory for experts, down to what one token needs; returns the bytes given back to the system.

        It grows back while tokens are computed: doubled every 10 seconds without a further call.
        """
        return self._model.relieve_pressure()

    def close(self) -> None:
        """Ends an answer that is under way, saves the conversations if there is a state_dir, and frees the model.

        Closing twice is fine.
        """
        if (stream := self._open_stream()) is not None:
            stream.close()
        with self.turn:
            if self._loaded is not None:
                self._take()
                if self._save is not None:
                    self._save()
                    self._save = None
                self._loaded = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _model(self) -> _core.Engine:
        if self._loaded is None:
            raise _core.InputError("the engine is closed")
        return self._loaded[0]

    def _open_stream(self) -> Stream | None:
        return self._stream() if self._stream is not None else None

    def _take(self) -> tuple[_core.Engine, _core.Session]:
        """Ends a stream that is still open; then the core and its session are free."""
        if self._loaded is None:
            raise _core.InputError("the engine is closed")
        if (stream := self._open_stream()) is not None:
            stream.supersede()
        return self._loaded

    def _room(self, ids: Sequence[int]) -> int:
        """Tokens that the context has left after a prompt."""
        if len(ids) >= self.context:
            raise PromptTooLong(len(ids), self.context)
        return self.context - len(ids)


def plan_memory(
    model: str | os.PathLike[str] | None = "demo",
    *,
    memory: int | str | None = None,
    context: int | None = None,
    kv: str = "f16",
    chunk: int | None = None,
    state_memory: int | str | None = None,
    backend: str = "auto",
    host_memory: int | str | None = None,
) -> dict[str, Any]:
    """The memory plan that an Engine with these arguments would have in this process, without loading the weights.

    In bytes, as described at swiftlet._core.plan. Raises what Engine raises.
    """
    path = resolve(model)
    tokenizer = Tokenizer(path)  # an engine has one, and the plan counts what the process holds
    plan = _core.plan(
        str(path),
        memory=0 if memory is None else parse_bytes(memory),
        context=_count("context", context),
        kv=kv,
        chunk=_count("chunk", chunk),
        state_memory=_state_memory(state_memory),
        backend=backend,
        host_memory=_optional_bytes(host_memory, "host_memory"),
    )
    del tokenizer
    return plan


def _count(name: str, value: int | None) -> int:
    """A positive number for the core, where 0 is its own choice."""
    if value is None:
        return 0
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not 0 < value < 2**31:
        raise _core.InputError(f"{name} is {value!r}; it must be a whole number above 0, or None")
    return int(value)


def _optional_bytes(amount: int | str | None, name: str) -> int:
    """Bytes; 0 or None is none."""
    return 0 if amount is None or (amount in (0, "0") and amount is not False) else parse_bytes(amount, name)


def _state_memory(amount: int | str | None) -> int | None:
    """Bytes; 0 is allowed, and None is the core's own choice."""
    return None if amount is None else _optional_bytes(amount, "state_memory")


def _save_states(core: _core.Engine, session: _core.Session) -> None:
    try:
        core.save_states(session)
    except _core.SwiftletError as error:
        _log.warning("the conversations are not saved: %s", error)
    _log_warnings(core)


def _log_warnings(core: _core.Engine) -> None:
    for warning in core.take_warnings():
        _log.warning("%s", warning)


def _stop_strings(stop: str | Sequence[str] | None) -> list[str]:
    strings = [] if stop is None else [stop] if isinstance(stop, str) else list(stop)
    for string in strings:
        if not isinstance(string, str) or not string:
            raise _core.InputError(f"stop has {string!r}; it must be a text that is not empty, or a list of such")
    return strings
