"""Errors as the clients of each API expect them."""

import json
import logging
import traceback
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

_log = logging.getLogger("swiftlet.server")

# Names of the kinds of error, by status: OpenAI's and Anthropic's.
_OPENAI_TYPES = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}


def json_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8. Half surrogate pairs, which UTF-8 cannot hold, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")


def log_failure(what: str, error: BaseException) -> None:
    """Logs an error that nobody expected. Its message may hold what was said, so only its kind and place are told."""
    place = "".join(traceback.format_tb(error.__traceback__))
    _log.error("%s failed with %s\n%s", what, type(error).__name__, place)


@dataclass
class ApiError(Exception):
    """What a client gets instead of an answer."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: int | None = None

    def openai(self) -> dict[str, Any]:
        """The error object of OpenAI's API."""
        kind = _OPENAI_TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def anthropic(self) -> dict[str, Any]:
        """The error object of Anthropic's API."""
        kind = _ANTHROPIC_TYPES.get(self.status, "invalid_request_error")
        message = self.message if self.param is None else f"{self.param}: {self.message}"
        return {"type": "error", "error": {"type": kind, "message": message}}

    def response(self, path: str) -> Response:
        """The response to a request for `path`."""
        content = self.anthropic() if is_anthropic(path) else self.openai()
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(json_bytes(content), self.status, headers, "application/json")


def is_anthropic(path: str) -> bool:
    """Whether an address belongs to Anthropic's API."""
    return path == "/v1/messages" or path.startswith("/v1/messages/")
