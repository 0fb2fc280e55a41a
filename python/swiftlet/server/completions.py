"""/v1/completions: plain text is continued."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from swiftlet.answer_parser import AnswerEvent
from swiftlet.records import TokenLogprob
from swiftlet.server.answers import Alive, Answers, Done, Failed, Job, Question
from swiftlet.server.chat_schema import CompletionRequest
from swiftlet.server.common import check_model, new_id, now, sampling_options, usage
from swiftlet.server.errors import ApiError
from swiftlet.server.logprobs import completion_logprobs
from swiftlet.server.requests import read_request
from swiftlet.server.settings import Settings
from swiftlet.server.sse import EventStream, comment, event, whole
from swiftlet.tool_calls import Text

_DEFAULT_TOKENS = 16  # as OpenAI has it


async def completions(request: Request, answers: Answers, settings: Settings, client: str) -> Response:
    """Answers a request."""
    body = await read_request(request, CompletionRequest, settings.max_body)
    check_model(body.model, settings)
    prompt = _one_prompt(body)
    options = sampling_options(body)
    options["max_tokens"] = body.max_tokens or _DEFAULT_TOKENS
    options["logprobs"] = body.logprobs
    if isinstance(prompt, str):
        options["raw"] = True
    job = await answers.begin(Question(prompt, options, client=client))
    echo = "" if not body.echo else prompt if isinstance(prompt, str) else answers.engine.tokenizer.decode(prompt)
    reply = _Reply(body, job, echo)
    if body.stream:
        return EventStream(reply.chunks(settings.keepalive_seconds), job.leave)
    return await whole(request, reply.whole(), job.leave)


def _one_prompt(body: CompletionRequest) -> str | list[int]:
    prompt = body.prompt
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        if len(prompt) > 1:
            raise ApiError(400, "one prompt at a time: send one request for each", "prompt", "invalid_value")
        return prompt[0]
    return prompt  # type: ignore[return-value]


class _Reply:
    def __init__(self, body: CompletionRequest, job: Job, echo: str) -> None:
        self._job = job
        self._echo = echo
        self._stream_usage = body.stream_options is not None and body.stream_options.include_usage
        self._wants_logprobs = body.logprobs is not None
        self._head = {"id": new_id("cmpl-"), "object": "text_completion", "created": now(), "model": body.model}

    async def whole(self) -> dict[str, Any]:
        text = self._echo
        logprobs: list[TokenLogprob] = []
        async for update in self._job.updates():
            if isinstance(update, Failed):
                raise update.error
            if isinstance(update, Done):
                entries = self._logprobs(logprobs, len(self._echo)) if self._wants_logprobs else None
                choice = self._choice(text, entries, update.finish_reason)
                return {**self._head, "choices": [choice], "usage": usage(update)}
            text += _text(update.events)
            logprobs += update.logprobs
        raise AssertionError("an answer ends with Done or Failed")

    async def chunks(self, keepalive_seconds: float) -> AsyncIterator[bytes]:
        usage_field = {"usage": None} if self._stream_usage else {}
        offset = len(self._echo)
        if self._echo:
            yield event({**self._head, "choices": [self._choice(self._echo)], **usage_field})
        async for update in self._job.updates_or_alive(keepalive_seconds):
            if isinstance(update, Alive):
                yield comment(update.doing)
            elif isinstance(update, Failed):
                yield event(update.error.openai())
                return
            elif isinstance(update, Done):
                choice = self._choice("", None, update.finish_reason)
                yield event({**self._head, "choices": [choice], **usage_field})
                if self._stream_usage:
                    yield event({**self._head, "choices": [], "usage": usage(update)})
            else:
                entries = self._logprobs(update.logprobs, offset) if self._wants_logprobs else None
                text = _text(update.events)
                offset += len(text)
                yield event({**self._head, "choices": [self._choice(text, entries)], **usage_field})
        yield event(b"[DONE]")

    def _choice(self, text: str, logprobs: Any = None, finish_reason: str | None = None) -> dict[str, Any]:
        return {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish_reason}

    def _logprobs(self, entries: list[TokenLogprob], offset: int) -> dict[str, Any]:
        return completion_logprobs(entries, offset, self._job.answers.engine.tokenizer)


def _text(events: list[AnswerEvent]) -> str:
    return "".join(piece.text for piece in events if isinstance(piece, Text))
