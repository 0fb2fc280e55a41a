"""Anthropic's /v1/messages and /v1/messages/count_tokens."""

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from swiftlet.answer_parser import AnswerEvent, Reasoning
from swiftlet.json_values import dump
from swiftlet.server.answers import Alive, Answers, Done, Failed, Job, Question
from swiftlet.server.anthropic_schema import AnthropicMessage, AnthropicTool, MessagesRequest, PromptRequest
from swiftlet.server.common import check_model, new_id
from swiftlet.server.errors import ApiError, json_bytes
from swiftlet.server.history import function_call, in_template_form, text_of
from swiftlet.server.requests import read_request
from swiftlet.server.settings import Settings
from swiftlet.server.sse import EventStream, event, whole
from swiftlet.tool_calls import CallArguments, CallBegin, Text

# Claude Code begins its system prompt with a line that differs from request to request. It means nothing to a model,
# and would make each prompt new from its first word on.
_BILLING = "x-anthropic-billing-header:"


async def messages(request: Request, answers: Answers, settings: Settings, client: str) -> Response:
    """Answers a request."""
    body = await read_request(request, MessagesRequest, settings.max_body)
    check_model(body.model, settings)
    job = await answers.begin(_question(body, client))
    reply = _Reply(body.model, job)
    if body.stream:
        return EventStream(reply.events(settings.keepalive_seconds), job.leave)
    return await whole(request, reply.whole(), job.leave)


async def count_tokens(request: Request, answers: Answers, settings: Settings, client: str) -> Response:
    """How many tokens a prompt has."""
    body = await read_request(request, PromptRequest, settings.max_body)
    check_model(body.model, settings)
    count = await answers.count_tokens(_prompt(body, client))
    return Response(json_bytes({"input_tokens": count}), media_type="application/json")


def _prompt(body: PromptRequest, client: str) -> Question:
    choice = body.tool_choice
    tools = [] if choice is not None and choice.type == "none" else _tools(body.tools or [])
    names = [tool["function"]["name"] for tool in tools]
    if choice is not None and choice.type == "tool" and choice.name not in names:
        raise ApiError(400, f"there is no tool named {choice.name!r}", "tool_choice.name")
    if choice is not None and choice.type == "any" and not names:
        raise ApiError(400, "a tool must be called, but there are none", "tool_choice")
    must_call: list[str] = []
    if choice is not None:
        must_call = names if choice.type == "any" else [choice.name or ""] if choice.type == "tool" else []
    system = _system(body.system)
    turns = [{"role": "system", "content": system}] if system else []
    for i, message in enumerate(body.messages):
        turns += _turns(message, f"messages[{i}].content")
    return Question(
        prompt=in_template_form(turns),
        options={
            "tools": tools or None,
            "enable_thinking": body.thinking is not None and body.thinking.type != "disabled",
        },
        tools=tools,
        must_call=must_call,
        strict=[tool.name for tool in body.tools or () if tool.strict and tool.name in names],
        parallel_calls=choice is None or not choice.disable_parallel_tool_use,
        client=client,
    )


def _question(body: MessagesRequest, client: str) -> Question:
    prompt = _prompt(body, client)
    form = body.output_format or (body.output_config.format if body.output_config is not None else None)
    return Question(
        prompt=prompt.prompt,
        options={
            **prompt.options,
            "max_tokens": body.max_tokens,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "top_k": body.top_k,
            "stop": body.stop_sequences,
        },
        tools=prompt.tools,
        must_call=prompt.must_call,
        strict=prompt.strict,
        parallel_calls=prompt.parallel_calls,
        schema=None if form is None else form.json_schema,
        client=client,
    )


def _tools(tools: list[AnthropicTool]) -> list[dict[str, Any]]:
    """Tools in OpenAI's form, as templates have them. Those of Anthropic's servers are left out."""
    functions: list[dict[str, Any]] = []
    for tool in tools:
        if tool.type not in (None, "custom"):
            continue
        if any(function["name"] == tool.name for function in functions):
            raise ApiError(400, f"there are two tools named {tool.name!r}", "tools")
        description = {} if tool.description is None else {"description": tool.description}
        functions.append({"name": tool.name, **description, "parameters": tool.input_schema or {"type": "object"}})
    return [{"type": "function", "function": function} for function in functions]


def _system(system: str | list[dict[str, Any]] | None) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    texts = [text_of([block], f"system[{i}]") for i, block in enumerate(system)]
    return "\n\n".join(text for text in texts if text and not text.startswith(_BILLING))


def _turns(message: AnthropicMessage, param: str) -> list[dict[str, Any]]:
    """A message as the turns that templates know: results of tools are turns of their own."""
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    turn: dict[str, Any] = {"role": message.role, "content": ""}
    results, calls, thoughts = [], [], ""
    for i, block in enumerate(message.content):
        kind, where = block.get("type"), f"{param}[{i}]"
        if kind == "tool_use":
            arguments = dump(block.get("input") or {})
            calls.append(function_call(str(block.get("id", "")), str(block.get("name", "")), arguments))
        elif kind == "tool_result":
            result = text_of(block.get("content"), f"{where}.content")
            results.append({"role": "tool", "tool_call_id": str(block.get("tool_use_id", "")), "content": result})
        elif kind == "thinking":
            thoughts += str(block.get("thinking", ""))
        elif kind != "redacted_thinking":
            separator = "\n\n" if turn["content"] else ""
            turn["content"] += separator + text_of([block], where)
    if thoughts:
        turn["reasoning_content"] = thoughts
    if calls:
        turn["tool_calls"] = calls
    has_turn = turn["content"] or calls or thoughts or not results
    return results + ([turn] if has_turn else [])


class _Reply:
    """One answer, whole or as events; both come out of the same updates."""

    def __init__(self, model: str, job: Job) -> None:
        self._job = job
        self._message: dict[str, Any] = {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }

    async def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        blocks: list[dict[str, Any]] = []
        async for update in self._job.updates():
            if isinstance(update, Failed):
                raise update.error
            if isinstance(update, Done):
                for block in blocks:
                    if block["type"] == "tool_use":
                        block["input"] = json.loads(block["input"])
                return {**self._message, "content": blocks, **_ending(update), "usage": _usage(update)}
            for piece in update.events:
                if (new := _new_block(piece, blocks[-1] if blocks else None)) is not None:
                    blocks.append(new)
                key = {"text": "text", "thinking": "thinking", "tool_use": "input"}[blocks[-1]["type"]]
                blocks[-1][key] = (blocks[-1][key] or "") + _text(piece)
        raise AssertionError("an answer ends with Done or Failed")

    async def events(self, keepalive_seconds: float) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        started = False
        index, block = -1, None
        async for update in self._job.updates_or_alive(keepalive_seconds):
            if not started:
                started = True
                usage = {"input_tokens": self._job.prompt_tokens, "output_tokens": 0}
                yield _event("message_start", message={**self._message, "usage": usage})
            if isinstance(update, Alive):
                yield _event("ping")
            elif isinstance(update, Failed):
                yield event(update.error.anthropic(), "error")
                return
            elif isinstance(update, Done):
                if block is not None:
                    yield _event("content_block_stop", index=index)
                yield _event("message_delta", delta=_ending(update), usage=_usage(update))
                yield _event("message_stop")
            else:
                for piece in update.events:
                    if (new := _new_block(piece, block)) is not None:
                        if block is not None:
                            yield _event("content_block_stop", index=index)
                        index, block = index + 1, new
                        start = {**new, "input": {}} if new["type"] == "tool_use" else new
                        yield _event("content_block_start", index=index, content_block=start)
                    if (delta := _delta(piece)) is not None:
                        yield _event("content_block_delta", index=index, delta=delta)


def _event(name: str, /, **data: Any) -> bytes:
    return event({"type": name, **data}, name)


def _new_block(piece: AnswerEvent, block: dict[str, Any] | None) -> dict[str, Any] | None:
    """The block that begins with this piece; None: it belongs to the present one."""
    if isinstance(piece, CallBegin):
        return {"type": "tool_use", "id": f"toolu_{piece.id.removeprefix('call_')}", "name": piece.name, "input": ""}
    kind = "thinking" if isinstance(piece, Reasoning) else "text" if isinstance(piece, Text) else "tool_use"
    if block is not None and block["type"] == kind:
        return None
    return {"type": "thinking", "thinking": "", "signature": ""} if kind == "thinking" else {"type": "text", "text": ""}


def _delta(piece: AnswerEvent) -> dict[str, Any] | None:
    if isinstance(piece, Text):
        return {"type": "text_delta", "text": piece.text}
    if isinstance(piece, Reasoning):
        return {"type": "thinking_delta", "thinking": piece.text}
    if isinstance(piece, CallArguments):
        return {"type": "input_json_delta", "partial_json": piece.text}
    return None


def _text(piece: AnswerEvent) -> str:
    return "" if isinstance(piece, CallBegin) else piece.text


def _ending(done: Done) -> dict[str, Any]:
    stop = done.completion.stop_reason
    if done.finish_reason == "length":
        reason = "max_tokens"
    elif done.calls:
        reason = "tool_use"
    else:
        reason = "stop_sequence" if isinstance(stop, str) else "end_turn"
    return {"stop_reason": reason, "stop_sequence": stop if reason == "stop_sequence" else None}


def _usage(done: Done) -> dict[str, Any]:
    stats = done.completion.stats
    return {
        "input_tokens": stats.prompt_tokens - stats.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": stats.cached_tokens,
        "output_tokens": stats.completion_tokens,
    }
