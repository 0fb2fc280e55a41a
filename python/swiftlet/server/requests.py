"""Bodies of requests."""

import json
import re
from typing import Any, TypeVar

import anyio.to_thread
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from swiftlet.server.errors import ApiError

_LONG = 256 * 1024  # bytes; parsing more would hold up the others

# Where a value can have several forms, pydantic also says which one it tried.
_FIELD = re.compile("[a-z_]+")
_TYPES = ("str", "int", "float", "bool", "dict", "list")
_MAX_FIELDS = 256  # of a request, known or not

Model = TypeVar("Model", bound=BaseModel)


async def read_request(request: Request, model: type[Model], max_body: int) -> Model:
    """The body of a request. Raises ApiError 400 for what is not JSON of this model, 413 for too much of it."""
    body = await _read_body(request, max_body)
    if len(body) > _LONG:
        return await anyio.to_thread.run_sync(_parse, body, model)
    return _parse(body, model)


def check_length(request: Request, most: int) -> None:
    """Raises ApiError 413 if a request says that its body is larger than that."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise _too_large(most)


async def _read_body(request: Request, most: int) -> bytes:
    """The bytes of a request's body, counted while they come."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                raise _too_large(most)
    except ClientDisconnect:
        raise ApiError(400, "the request ended early") from None
    return bytes(body)


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the request is larger than {most} bytes", code="request_too_large")


def _parse(body: bytes, model: type[Model]) -> Model:
    try:
        value = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ApiError(400, "the body must be a JSON object")
    if len(value) > _MAX_FIELDS:
        raise ApiError(400, f"the body has {len(value)} fields; {_MAX_FIELDS} are the most")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _refusal(error) from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None


def _refusal(error: ValidationError) -> ApiError:
    """The first thing that is wrong, and where. That a value is not of another type that it may have says less."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    first = next((error for error in errors if not error["type"].endswith("_type")), errors[0])
    param = ""
    for part in first["loc"]:
        if isinstance(part, int):
            param += f"[{part}]"
        elif _FIELD.fullmatch(part) and part not in _TYPES:
            param += f".{part}" if param else part
    if first["type"] == "extra_forbidden":
        return ApiError(400, f"Unknown parameter: '{param}'.", param, "unknown_parameter")
    if first["type"] == "missing":
        return ApiError(400, f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    message = first["msg"].removeprefix("Value error, ")
    return ApiError(400, f"Invalid value for '{param}': {message}.", param or None, "invalid_value")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
