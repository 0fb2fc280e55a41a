"""/v1/chat/completions."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from swiftlet import __version__
from swiftlet.answer_parser import AnswerEvent, Reasoning
from swiftlet.records import TokenLogprob
from swiftlet.server.answers import Alive, Answers, Done, Failed, Job, Question
from swiftlet.server.chat_schema import ChatRequest, Message
from swiftlet.server.common import (
    check_model,
    must_call,
    new_id,
    now,
    sampling_options,
    schema_of,
    thinking_of,
    tools_for_template,
    usage,
)
from swiftlet.server.history import function_call, in_template_form, text_of
from swiftlet.server.logprobs import chat_logprobs
from swiftlet.server.requests import read_request
from swiftlet.server.settings import Settings
from swiftlet.server.sse import EventStream, comment, event, whole
from swiftlet.tool_calls import CallArguments, CallBegin, Text


async def chat_completions(request: Request, answers: Answers, settings: Settings, client: str) -> Response:
    """Answers a request."""
    body = await read_request(request, ChatRequest, settings.max_body)
    check_model(body.model, settings)
    job = await answers.begin(question_of(body, client))
    reply = _Reply(body, job)
    if body.stream:
        return EventStream(reply.chunks(settings.keepalive_seconds), job.leave)
    return await whole(request, reply.whole(), job.leave)


def question_of(body: ChatRequest, client: str) -> Question:
    """What a request asks for."""
    tools = [] if body.tool_choice == "none" else tools_for_template(body.tools)
    top_logprobs = body.top_logprobs or 0
    options = sampling_options(body)
    if body.max_completion_tokens is not None:
        options["max_tokens"] = body.max_completion_tokens
    options["logprobs"] = top_logprobs if body.logprobs else None
    options["tools"] = tools or None
    thinking = body.enable_thinking if body.enable_thinking is not None else thinking_of(body.reasoning_effort)
    options["enable_thinking"] = thinking
    options["chat_template_kwargs"] = body.chat_template_kwargs
    return Question(
        prompt=in_template_form(_message(message, f"messages[{i}]") for i, message in enumerate(body.messages)),
        options=options,
        tools=tools,
        must_call=must_call(body.tool_choice, tools),
        strict=[tool.function.name for tool in body.tools or () if tool.function.strict] if tools else [],
        parallel_calls=body.parallel_tool_calls is not False,
        schema=schema_of(body.response_format),
        client=client,
    )


def _message(message: Message, param: str) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": text_of(message.content, f"{param}.content")}
    if message.role == "assistant":
        thoughts = message.reasoning_content or message.reasoning
        if thoughts:
            turn["reasoning_content"] = thoughts
        if message.tool_calls:
            turn["tool_calls"] = [
                function_call(call.id, call.function.name, call.function.arguments) for call in message.tool_calls
            ]
    if message.name:
        turn["name"] = message.name
    if message.tool_call_id:
        turn["tool_call_id"] = message.tool_call_id
    return turn


class _Reply:
    """One answer, whole or in chunks; both come out of the same updates."""

    def __init__(self, body: ChatRequest, job: Job) -> None:
        self._job = job
        self._stream_usage = body.stream_options is not None and body.stream_options.include_usage
        self._wants_logprobs = bool(body.logprobs)
        self._top_logprobs = body.top_logprobs or 0
        self._head = {
            "id": new_id("chatcmpl-"),
            "created": now(),
            "model": body.model,
            "system_fingerprint": f"swiftlet-{__version__}",
        }

    async def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        content, thoughts = "", ""
        calls: list[dict[str, Any]] = []
        logprobs: list[TokenLogprob] = []
        done: Done | None = None
        async for update in self._job.updates():
            if isinstance(update, Failed):
                raise update.error
            if isinstance(update, Done):
                done = update
                break
            logprobs += update.logprobs
            for piece in update.events:
                if isinstance(piece, Text):
                    content += piece.text
                elif isinstance(piece, Reasoning):
                    thoughts += piece.text
                elif isinstance(piece, CallBegin):
                    calls.append(
                        {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": ""}}
                    )
                else:
                    calls[piece.index]["function"]["arguments"] += piece.text
        assert done is not None
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else ""), "refusal": None}
        if thoughts:
            message["reasoning_content"] = thoughts
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": done.finish_reason}
        if self._wants_logprobs:
            choice["logprobs"] = self._logprobs(logprobs)
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage(done)}

    async def chunks(self, keepalive_seconds: float) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        yield self._chunk({"role": "assistant", "content": ""})
        async for update in self._job.updates_or_alive(keepalive_seconds):
            if isinstance(update, Alive):
                yield comment(update.doing)
            elif isinstance(update, Failed):
                yield event(update.error.openai())
                return
            elif isinstance(update, Done):
                yield self._chunk({}, finish_reason=update.finish_reason)
                if self._stream_usage:
                    yield event(
                        {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(update)}
                    )
            else:
                logprobs = self._logprobs(update.logprobs) if self._wants_logprobs and update.logprobs else None
                deltas = [_delta(piece) for piece in update.events]
                # Tokens whose text is held back have their place in the chunk that comes now.
                for i, delta in enumerate(deltas or ([{}] if logprobs else [])):
                    yield self._chunk(delta, logprobs=logprobs if i == 0 else None)
        yield event(b"[DONE]")

    def _chunk(self, delta: dict[str, Any], *, logprobs: Any = None, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        if self._stream_usage:
            chunk["usage"] = None
        return event(chunk)

    def _logprobs(self, entries: list[TokenLogprob]) -> dict[str, Any]:
        tokenizer = self._job.answers.engine.tokenizer
        return {"content": chat_logprobs(entries, self._top_logprobs, tokenizer), "refusal": None}


def _delta(piece: AnswerEvent) -> dict[str, Any]:
    if isinstance(piece, Text):
        return {"content": piece.text}
    if isinstance(piece, Reasoning):
        return {"reasoning_content": piece.text}
    if isinstance(piece, CallBegin):
        call = {"index": piece.index, "id": piece.id, "type": "function"}
        return {"tool_calls": [{**call, "function": {"name": piece.name, "arguments": ""}}]}
    assert isinstance(piece, CallArguments)
    return {"tool_calls": [{"index": piece.index, "function": {"arguments": piece.text}}]}
