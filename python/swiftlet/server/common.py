"""What the modules of the APIs share."""

import secrets
import time
from collections.abc import Sequence
from typing import Any

from swiftlet.engine import AnswerOptions
from swiftlet.server.answers import Done
from swiftlet.server.chat_schema import NamedTool, ResponseFormat, SamplingRequest, Tool
from swiftlet.server.errors import ApiError
from swiftlet.server.settings import Settings


def new_id(prefix: str) -> str:
    """An id that nothing else has."""
    return f"{prefix}{secrets.token_hex(12)}"


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())


def check_model(name: str, settings: Settings) -> None:
    """Raises ApiError 404 for a model that is not here."""
    if name not in settings.names and "*" not in settings.aliases:
        known = ", ".join(settings.names)
        raise ApiError(404, f"The model '{name}' does not exist; there is: {known}", "model", "model_not_found")


def sampling_options(request: SamplingRequest) -> AnswerOptions:
    """Options of Engine.generate from the fields that chat and completions share."""
    return {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": None if request.top_k is None else max(request.top_k, 0),
        "min_p": request.min_p,
        "repetition_penalty": request.repetition_penalty,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "logit_bias": request.logit_bias,
        "seed": None if request.seed is None else request.seed % 2**64,
        "stop": request.stop,
        "ignore_eos": request.ignore_eos,
    }


def tools_for_template(tools: Sequence[Tool] | None) -> list[dict[str, Any]]:
    """Tools as templates and the parser of calls want them. Raises ApiError for two of one name."""
    names = [tool.function.name for tool in tools or ()]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ApiError(400, f"there are two tools named {twice!r}", "tools", "invalid_value")
    return [
        {"type": "function", "function": tool.function.model_dump(exclude_unset=True, exclude={"strict"})}
        for tool in tools or ()
    ]


def must_call(choice: str | NamedTool | None, tools: Sequence[dict[str, Any]]) -> list[str]:
    """Names of the functions of which one must be called. Raises ApiError for a choice that cannot be made."""
    names = [tool["function"]["name"] for tool in tools]
    if isinstance(choice, NamedTool):
        if choice.function.name not in names:
            raise ApiError(400, f"there is no tool named {choice.function.name!r}", "tool_choice", "invalid_value")
        return [choice.function.name]
    if choice == "required" and not names:
        raise ApiError(400, "tool_choice is 'required', but there are no tools", "tool_choice", "invalid_value")
    return names if choice == "required" else []


def schema_of(form: ResponseFormat | None) -> dict[str, Any] | None:
    """The JSON schema that the answer must have; None: any text will do."""
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return {"type": "object"}
    if form.json_schema is None or form.json_schema.json_schema is None:
        raise ApiError(
            400, "a response_format of type json_schema needs a schema", "response_format.json_schema.schema"
        )
    return form.json_schema.json_schema


def thinking_of(effort: str | None) -> bool | None:
    """Whether a model that can should think; None: as its template has it."""
    return None if effort is None else effort not in ("none", "minimal")


def usage(done: Done) -> dict[str, Any]:
    """Counts of tokens, as OpenAI has them."""
    stats = done.completion.stats
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.completion_tokens,
        "total_tokens": stats.prompt_tokens + stats.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": stats.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": done.reasoning_tokens},
    }
