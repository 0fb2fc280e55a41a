"""OpenAI's /v1/responses."""

import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from swiftlet.answer_parser import AnswerEvent, Reasoning
from swiftlet.json_values import dump
from swiftlet.server.answers import Alive, Answers, Done, Failed, Job, Piece, Question
from swiftlet.server.common import check_model, new_id, now, thinking_of, usage
from swiftlet.server.errors import ApiError
from swiftlet.server.history import function_call, in_template_form, text_of
from swiftlet.server.requests import read_request
from swiftlet.server.responses_schema import ResponsesChoice, ResponsesRequest
from swiftlet.server.settings import Settings
from swiftlet.server.sse import EventStream, comment, event, whole
from swiftlet.tool_calls import CallArguments, CallBegin, Text

_TEXT_PARTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_KEPT_RESPONSES = 256
_KEPT_CHARACTERS = 4 * 1024 * 1024

Item = dict[str, Any]
_Events = list[tuple[str, dict[str, Any]]]  # names and contents


class Conversations:
    """Earlier responses, for requests that only send what is new; the oldest are forgotten."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, tuple[list[Item], int]] = OrderedDict()
        self._characters = 0

    def get(self, id: str) -> list[Item]:
        """What was said up to this response. Raises ApiError 404."""
        if id not in self._items:
            message = f"Previous response with id '{id}' not found: it was not stored, or long ago"
            raise ApiError(404, message, "previous_response_id", "previous_response_not_found")
        return self._items[id][0]

    def keep(self, id: str, items: list[Item]) -> None:
        """Remembers what was said up to a response."""
        size = len(dump(items))
        self._items[id] = items, size
        self._characters += size
        while len(self._items) > _KEPT_RESPONSES or self._characters > _KEPT_CHARACTERS:
            _, (_, size) = self._items.popitem(last=False)
            self._characters -= size


async def responses(
    request: Request, answers: Answers, settings: Settings, client: str, conversations: Conversations
) -> Response:
    """Answers a request."""
    body = await read_request(request, ResponsesRequest, settings.max_body)
    check_model(body.model, settings)
    before = conversations.get(body.previous_response_id) if body.previous_response_id else []
    given: list[Item] = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    items = before + given
    tools = _Tools(body)
    job = await answers.begin(_question(body, items, tools, client))
    reply = _Reply(body, job, tools)

    def keep() -> None:
        if body.store is not False:
            conversations.keep(reply.id, items + reply.output)

    if body.stream:
        return EventStream(reply.events(settings.keepalive_seconds, keep), job.leave)
    return await whole(request, reply.whole(keep), job.leave)


class _Tools:
    """The tools of a request that can be called here, and the names of those that take text as it is."""

    def __init__(self, body: ResponsesRequest) -> None:
        self.functions: list[dict[str, Any]] = []
        self.custom: set[str] = set()
        self._strict: set[str] = set()
        for tool in body.tools or []:
            if tool.type not in ("function", "custom") or tool.name is None:
                continue  # web search and the like
            if tool.name in self.names():
                raise ApiError(400, f"there are two tools named {tool.name!r}", "tools", "invalid_value")
            parameters = tool.parameters or {"type": "object", "properties": {}}
            if tool.strict:
                self._strict.add(tool.name)
            if tool.type == "custom":
                self.custom.add(tool.name)
                parameters = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
            description = {} if tool.description is None else {"description": tool.description}
            function = {"name": tool.name, **description, "parameters": parameters}
            self.functions.append({"type": "function", "function": function})

    def names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.functions]

    def strict(self) -> list[str]:
        return [name for name in self.names() if name in self._strict]

    def must_call(self, choice: str | ResponsesChoice | None) -> list[str]:
        names = self.names()
        if isinstance(choice, ResponsesChoice):
            if choice.type == "allowed_tools":
                allowed = [str(tool.get("name")) for tool in choice.tools or []]
                self.functions = [tool for tool in self.functions if tool["function"]["name"] in allowed]
                return self.must_call(choice.mode)
            if choice.name not in names:
                raise ApiError(400, f"there is no tool named {choice.name!r}", "tool_choice", "invalid_value")
            return [choice.name]
        if choice == "required" and not names:
            raise ApiError(400, "tool_choice is 'required', but there are no tools", "tool_choice", "invalid_value")
        return names if choice == "required" else []


def _question(body: ResponsesRequest, items: list[Item], tools: _Tools, client: str) -> Question:
    if body.tool_choice == "none":
        tools.functions = []
    must_call = tools.must_call(body.tool_choice)
    system = [{"role": "system", "content": body.instructions}] if body.instructions else []
    form = body.text.format if body.text is not None else None
    schema = None
    if form is not None and form.type != "text":
        schema = {"type": "object"} if form.type == "json_object" else form.json_schema
        if schema is None:
            raise ApiError(400, "a format of type json_schema needs a schema", "text.format.schema", "invalid_value")
    effort = body.reasoning.effort if body.reasoning is not None else None
    return Question(
        prompt=in_template_form([*system, *_turns(items)]),
        options={
            "max_tokens": body.max_output_tokens,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "tools": tools.functions or None,
            "enable_thinking": thinking_of(effort),
            "chat_template_kwargs": body.chat_template_kwargs,
        },
        tools=tools.functions,
        must_call=must_call,
        strict=tools.strict(),
        parallel_calls=body.parallel_tool_calls is not False,
        schema=schema,
        client=client,
    )


def _turns(items: list[Item]) -> list[dict[str, Any]]:
    """Items as the turns that templates know: thoughts, words and calls of one answer become one turn."""
    turns: list[dict[str, Any]] = []

    def of_assistant() -> dict[str, Any]:
        if not turns or turns[-1]["role"] != "assistant":
            turns.append({"role": "assistant", "content": ""})
        return turns[-1]

    for i, item in enumerate(items):
        kind, where = item.get("type", "message"), f"input[{i}]"
        if kind == "message":
            text = text_of(item.get("content"), f"{where}.content", _TEXT_PARTS)
            role = item.get("role")
            if role not in ("user", "assistant", "system", "developer"):
                raise ApiError(400, f"there is no role {role!r}", f"{where}.role", "invalid_value")
            if role == "assistant":
                of_assistant()["content"] += text
            else:
                turns.append({"role": role, "content": text})
        elif kind == "reasoning":
            parts = item.get("content") or item.get("summary") or []
            thoughts = text_of(parts, f"{where}.content", _TEXT_PARTS)
            if thoughts:
                turn = of_assistant()
                turn["reasoning_content"] = turn.get("reasoning_content", "") + thoughts
        elif kind in ("function_call", "custom_tool_call"):
            given = item.get("arguments") if kind == "function_call" else dump({"input": item.get("input", "")})
            call = function_call(str(item.get("call_id", "")), str(item.get("name", "")), str(given or ""))
            of_assistant().setdefault("tool_calls", []).append(call)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            result = text_of(item.get("output"), f"{where}.output", _TEXT_PARTS)
            turns.append({"role": "tool", "tool_call_id": str(item.get("call_id", "")), "content": result})
        else:
            raise ApiError(400, f"items of type {kind!r} are not supported", where, "invalid_value")
    return turns


class _Reply:
    """One answer, whole or as events; the whole one is what the last event holds."""

    def __init__(self, body: ResponsesRequest, job: Job, tools: _Tools) -> None:
        self.id = new_id("resp_")
        self.output: list[Item] = []
        self._job = job
        self._custom = tools.custom
        self._sequence = 0
        self._done: Done | None = None
        self._arguments = ""  # of a custom tool's call, as the model writes them
        form = body.text.format if body.text is not None else None
        self._head = {
            "id": self.id,
            "object": "response",
            "created_at": now(),
            "model": body.model,
            "instructions": body.instructions,
            "previous_response_id": body.previous_response_id,
            "max_output_tokens": body.max_output_tokens,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "tool_choice": body.tool_choice if isinstance(body.tool_choice, str) else "auto",
            "tools": [tool.model_dump(exclude_none=True) for tool in body.tools or []],
            "text": {"format": {"type": "text" if form is None else form.type}},
            "reasoning": {"effort": body.reasoning.effort if body.reasoning is not None else None, "summary": None},
            "metadata": body.metadata or {},
            "store": body.store is not False,
            "truncation": "disabled",
        }

    async def whole(self, keep: Callable[[], None]) -> dict[str, Any]:
        """The answer as one object."""
        async for update in self._job.updates():
            if isinstance(update, Failed):
                raise update.error
            for _ in self._take(update):
                pass
        keep()
        return self._response()

    async def events(self, keepalive_seconds: float, keep: Callable[[], None]) -> AsyncIterator[bytes]:
        """The answer as server-sent events."""
        yield self._event("response.created", response=self._response())
        yield self._event("response.in_progress", response=self._response())
        async for update in self._job.updates_or_alive(keepalive_seconds):
            if isinstance(update, Alive):
                yield comment(update.doing)
            elif isinstance(update, Failed):
                error = {"code": update.error.code or "server_error", "message": update.error.message}
                yield self._event("response.failed", response={**self._response(), "status": "failed", "error": error})
                return
            else:
                for name, data in self._take(update):
                    yield self._event(name, **data)
        keep()
        name = "response.completed" if self._response()["status"] == "completed" else "response.incomplete"
        yield self._event(name, response=self._response())

    def _event(self, name: str, /, **data: Any) -> bytes:
        self._sequence += 1
        return event({"type": name, "sequence_number": self._sequence - 1, **data}, name)

    def _response(self) -> dict[str, Any]:
        done = self._done
        cut = done is not None and done.finish_reason == "length"
        return {
            **self._head,
            "status": "in_progress" if done is None else "incomplete" if cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": list(self.output),
            "usage": None if done is None else _usage(done),
        }

    def _take(self, update: Piece | Done) -> _Events:
        """Adds an update to the output; the events that tell of it."""
        if isinstance(update, Done):
            self._done = update
            cut = update.finish_reason == "length"
            return self._close("incomplete" if cut else "completed")
        told: _Events = []
        for piece in update.events:
            if self._begins_item(piece):
                told += self._close("completed")
                told += self._open(piece)
            told += self._add(piece)
        return told

    def _begins_item(self, piece: AnswerEvent) -> bool:
        if isinstance(piece, CallBegin) or not self.output:
            return True
        kind = self.output[-1]["type"]
        return (isinstance(piece, Text) and kind != "message") or (isinstance(piece, Reasoning) and kind != "reasoning")

    def _open(self, piece: AnswerEvent) -> _Events:
        item: Item = {"status": "in_progress"}
        if isinstance(piece, CallBegin):
            custom = piece.name in self._custom
            kind, text = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
            item |= {"id": new_id("fc_"), "type": kind, "call_id": piece.id, "name": piece.name, text: ""}
            self._arguments = ""
        elif isinstance(piece, Reasoning):
            item |= {"id": new_id("rs_"), "type": "reasoning", "summary": [], "content": []}
        else:
            item |= {"id": new_id("msg_"), "type": "message", "role": "assistant", "content": []}
        self.output.append(item)
        told: _Events = [("response.output_item.added", {"output_index": len(self.output) - 1, "item": dict(item)})]
        if item["type"] in ("message", "reasoning"):
            part = {"type": "reasoning_text", "text": ""} if item["type"] == "reasoning" else _output_text("")
            item["content"] = [part]
            told.append(("response.content_part.added", {**self._place(), "part": dict(part)}))
        return told

    def _add(self, piece: AnswerEvent) -> _Events:
        item = self.output[-1]
        if isinstance(piece, CallBegin):
            return []
        if isinstance(piece, CallArguments):
            if item["type"] == "custom_tool_call":
                self._arguments += piece.text
                return []
            item["arguments"] += piece.text
            return [("response.function_call_arguments.delta", {**self._place(part=False), "delta": piece.text})]
        item["content"][0]["text"] += piece.text
        if isinstance(piece, Reasoning):
            return [("response.reasoning_text.delta", {**self._place(), "delta": piece.text})]
        return [("response.output_text.delta", {**self._place(), "delta": piece.text, "logprobs": []})]

    def _close(self, status: str) -> _Events:
        if not self.output:
            return []
        item = self.output[-1]
        item["status"] = status
        told: _Events = []
        if item["type"] in ("message", "reasoning"):
            part = item["content"][0]
            name = "output_text" if item["type"] == "message" else "reasoning_text"
            text = {"text": part["text"]} | ({"logprobs": []} if item["type"] == "message" else {})
            told.append((f"response.{name}.done", {**self._place(), **text}))
            told.append(("response.content_part.done", {**self._place(), "part": dict(part)}))
        elif item["type"] == "function_call":
            done = {**self._place(part=False), "name": item["name"], "arguments": item["arguments"]}
            told.append(("response.function_call_arguments.done", done))
        else:
            item["input"] = str(json.loads(self._arguments or "{}").get("input", ""))
            place = self._place(part=False)
            told.append(("response.custom_tool_call_input.delta", {**place, "delta": item["input"]}))
            told.append(("response.custom_tool_call_input.done", {**place, "input": item["input"]}))
        told.append(("response.output_item.done", {"output_index": len(self.output) - 1, "item": dict(item)}))
        return told

    def _place(self, *, part: bool = True) -> dict[str, Any]:
        place = {"item_id": self.output[-1]["id"], "output_index": len(self.output) - 1}
        return {**place, "content_index": 0} if part else place


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(done: Done) -> dict[str, Any]:
    counts = usage(done)
    return {
        "input_tokens": counts["prompt_tokens"],
        "input_tokens_details": counts["prompt_tokens_details"],
        "output_tokens": counts["completion_tokens"],
        "output_tokens_details": counts["completion_tokens_details"],
        "total_tokens": counts["total_tokens"],
    }
