"""Questions in no API's form, and how they are answered."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from swiftlet import SwiftletError, _core
from swiftlet.answer_parser import AnswerEvent, AnswerParser
from swiftlet.engine import AnswerOptions, Engine
from swiftlet.generation import Constraint
from swiftlet.prompt import Prompt, PromptTooLong
from swiftlet.records import Completion, TokenLogprob
from swiftlet.server.errors import ApiError, log_failure
from swiftlet.server.metrics import Metrics
from swiftlet.server.queue import QueueFull, TurnQueue
from swiftlet.server.settings import Settings
from swiftlet.thinking import begins_thinking

if TYPE_CHECKING:
    from swiftlet.grammar import CallForm, GrammarCompiler

_SECONDS_AN_ANSWER = 15.0  # a guess, before there is an answer to measure


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and how it is to be answered."""

    prompt: Prompt
    options: AnswerOptions
    tools: Sequence[Mapping[str, Any]] = ()
    """Functions that the answer may call."""
    must_call: Sequence[str] = ()
    """Functions of which the answer must call one."""
    strict: Sequence[str] = ()
    """Functions whose calls must have arguments of their schemas."""
    parallel_calls: bool = True
    schema: Mapping[str, Any] | None = None
    """The answer is to be JSON of this schema."""
    client: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer. `logprobs` are those of its tokens, without thoughts and the end token."""

    events: list[AnswerEvent]
    logprobs: list[TokenLogprob]


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an answer."""

    completion: Completion
    calls: int
    reasoning_tokens: int

    @property
    def finish_reason(self) -> str:
        """As OpenAI names it: "stop", "length" or "tool_calls"."""
        if self.completion.finish_reason == "length":
            return "length"
        return "tool_calls" if self.calls else "stop"


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer cannot be finished."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing has come for a while; what is being done."""

    doing: str


Update = Piece | Done | Failed
_LAST = (Done, Failed)


class _Left(Exception):
    """Nobody wants the answer any more."""


@dataclass(eq=False)
class Job:
    """A question on its way."""

    question: Question
    prompt_tokens: int
    begun: bool | None
    constraint: Constraint | None
    answers: "Answers"
    left: bool = False
    prefill: tuple[int, int] | None = None
    """Tokens of the prompt that are done, and their total, while the prefill runs."""
    _updates: asyncio.Queue[Update] = field(default_factory=asyncio.Queue)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    @property
    def client(self) -> str:
        """Who asks."""
        return self.question.client

    def leave(self) -> None:
        """The answer is of no use any more: the turn goes to the next one within moments."""
        self.left = True
        self.answers.queue.discard(self)

    def post(self, update: Update) -> None:
        """Called by the thread that answers."""
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            self._loop.call_soon_threadsafe(self._updates.put_nowait, update)

    async def updates(self) -> AsyncIterator[Update]:
        """What comes, until it is Done or Failed."""
        while True:
            update = await self._updates.get()
            yield update
            if isinstance(update, _LAST):
                return

    async def updates_or_alive(self, seconds: float) -> AsyncIterator[Update | Alive]:
        """The same, and signs of life when nothing has come for so long."""
        while True:
            try:
                update = await asyncio.wait_for(self._updates.get(), seconds)
            except TimeoutError:
                yield Alive(self.doing())
                continue
            yield update
            if isinstance(update, _LAST):
                return

    def doing(self) -> str:
        """In words: waiting, reading the prompt, or answering."""
        if (ahead := self.answers.queue.ahead(self)) > 0:
            return f"waiting, {ahead} ahead"
        if self.prefill is not None:
            return f"prefill, {self.prefill[0]} of {self.prefill[1]} tokens"
        return "answering"


class Answers:
    """Checks questions and has them answered, one at a time."""

    def __init__(self, engine: Engine, settings: Settings, metrics: Metrics) -> None:
        self.engine = engine
        self._metrics = metrics
        self.queue: TurnQueue[Job] = TurnQueue(self._answer, settings.max_waiting, settings.max_waiting_each)
        self._compiler: GrammarCompiler | None = None
        self._compiling = threading.Lock()
        self._call_form = _call_form(engine)
        self._seconds = _SECONDS_AN_ANSWER  # that an answer takes, roughly

    def check_room(self, client: str) -> None:
        """Raises ApiError 429 or 503 if too many are waiting for another question of this client."""
        with self._refused_if_full():
            self.queue.check(client)

    async def begin(self, question: Question) -> Job:
        """Queues a question. Raises ApiError: 400 for what cannot be answered, 429 or 503 if too many are waiting."""
        self.check_room(question.client)  # before there is work to do
        tokens, begun, constraint = await anyio.to_thread.run_sync(self._prepare, question)
        job = Job(question, tokens, begun, constraint, self)
        with self._refused_if_full():
            self.queue.put(job)
        return job

    @contextmanager
    def _refused_if_full(self) -> Iterator[None]:
        try:
            yield
        except QueueFull as error:
            seconds = max(1, math.ceil(self._seconds))
            if error.own:
                raise ApiError(429, f"{error} for this client; try again later", None, "queue_full", seconds) from None
            raise ApiError(503, f"{error}; try again later", None, "queue_full", seconds) from None

    async def count_tokens(self, question: Question) -> int:
        """Tokens of the prompt. Raises ApiError for what is malformed."""

        def count() -> int:
            tools, thinking = question.options.get("tools"), question.options.get("enable_thinking")
            return len(self.engine.encode(question.prompt, tools=tools, enable_thinking=thinking))

        with refusals():
            return await anyio.to_thread.run_sync(count)

    def close(self) -> None:
        """Ends the thread that answers."""
        self.queue.close()

    def _prepare(self, question: Question) -> tuple[int, bool | None, Constraint | None]:
        """Everything that can be refused before there is work to do."""
        with refusals():
            tokens = self.engine.check(question.prompt, **question.options)
            begun = self._begins_thinking(question)
            return tokens, begun, self._constraint(question, begun)

    def _begins_thinking(self, question: Question) -> bool | None:
        """As AnswerParser takes it: None for plain text, which is only continued."""
        prompt, options = question.prompt, question.options
        if isinstance(prompt, str) or not all(isinstance(message, Mapping) for message in prompt):
            return None
        text = self.engine.render(
            prompt,  # type: ignore[arg-type]
            tools=options.get("tools"),
            enable_thinking=options.get("enable_thinking"),
            chat_template_kwargs=options.get("chat_template_kwargs"),
        )
        return begins_thinking(text)

    def _constraint(self, question: Question, begun: bool | None) -> Constraint | None:
        if not (question.must_call or question.strict) and question.schema is None:
            return None
        with self._compiling:
            if self._compiler is None:
                self._compiler = self._make_compiler()
        if question.strict and not question.must_call and question.schema is None:
            return self._compiler.strict_calls(question.tools, question.strict, form=self._call_form, begun=begun)
        if question.tools:
            must = question.must_call
            return self._compiler.function_call(
                [tool for tool in question.tools if not must or tool["function"]["name"] in must],
                form=self._call_form,
                several=question.parallel_calls,
                or_schema=None if must else question.schema,
                in_thoughts=bool(begun),
            )
        return self._compiler.json_schema(question.schema, in_thoughts=bool(begun))

    def _make_compiler(self) -> "GrammarCompiler":
        """Takes seconds and memory with a large vocabulary. The experts give it up first: the ceiling holds."""
        from swiftlet.grammar import BYTES_PER_TOKEN, GrammarCompiler

        config, ceiling = self.engine.config, self.engine.plan["ceiling"]
        self.engine.set_memory(ceiling - BYTES_PER_TOKEN * config["vocab_size"])
        try:
            return GrammarCompiler(self.engine.tokenizer, config["vocab_size"], config["eos_token_ids"])
        except BaseException:
            self.engine.set_memory(ceiling)
            raise

    # In the thread that answers

    def _answer(self, job: Job) -> None:
        try:
            job.post(self._generate(job))
        except _Left:
            self._metrics.left.inc()
        except SwiftletError as error:
            status = 400 if isinstance(error, _core.InputError) else 500
            job.post(Failed(ApiError(status, str(error))))
        except BaseException as error:  # a panic in Rust is no Exception, and would end the only thread that answers
            log_failure("an answer", error)
            job.post(Failed(ApiError(500, "the answer failed for a reason that is not the request's")))

    def _generate(self, job: Job) -> Done:
        if job.left:
            raise _Left
        question = job.question
        job.prefill = 0, job.prompt_tokens
        parser = AnswerParser(begun=job.begun, tools=question.tools, must_call=bool(question.must_call))
        reasoning_tokens = 0

        def on_prefill(done: int, total: int) -> None:
            job.prefill = done, total
            if job.left:
                raise _Left

        with self.engine.generate(
            question.prompt, on_prefill=on_prefill, constraint=job.constraint, **question.options
        ) as stream:
            for delta in stream:
                if job.left:
                    raise _Left
                job.prefill = None
                thinking = parser.thinking
                events = parser.push(delta.text)
                thinking = thinking or parser.thinking  # </think> is no content either
                if parser.thinking:
                    reasoning_tokens += len(delta.token_ids)
                if not question.parallel_calls and parser.calls > 1:
                    events = _first_call(events)
                    job.post(Piece(events, []))
                    break
                logprobs = [] if thinking or delta.logprobs is None else delta.logprobs
                if events or logprobs:
                    job.post(Piece(events, logprobs))
        result = stream.result
        # A stop string cuts as max_tokens does; only the model's own end token ends what it was writing.
        events = parser.finish(cut=result.finish_reason == "length" or isinstance(result.stop_reason, str))
        if not question.parallel_calls:
            events = _first_call(events)
        if events:
            job.post(Piece(events, []))
        calls = parser.calls if question.parallel_calls else min(parser.calls, 1)
        self._metrics.answered(result)
        stats = result.stats
        self._seconds += 0.2 * (stats.prefill_seconds + stats.decode_seconds - self._seconds)
        return Done(result, calls, reasoning_tokens)


@contextmanager
def refusals() -> Iterator[None]:
    """What the engine refuses becomes a 400."""
    try:
        yield
    except PromptTooLong as error:
        raise ApiError(400, str(error), "messages", "context_length_exceeded") from None
    except _core.InputError as error:
        raise ApiError(400, str(error)) from None
    except SwiftletError as error:
        raise ApiError(500, str(error)) from None


def _first_call(events: list[AnswerEvent]) -> list[AnswerEvent]:
    """Events without the calls after the first."""
    return [event for event in events if getattr(event, "index", 0) == 0]


def _call_form(engine: Engine) -> "CallForm":
    """How the model's template has it write calls: "xml" or "json"."""
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": "b"}}}]}
    try:
        text = engine.render([{"role": "user", "content": "?"}, call])
    except SwiftletError:
        return "xml"
    return "xml" if "<function=" in text else "json"
