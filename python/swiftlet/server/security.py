"""Who may ask: keys, and pages and names from elsewhere.

A web page that a browser shows can send requests to servers on the same machine, and with DNS rebinding even as if they
came from the server's own page. So the Host header must name this machine, and an Origin header this server.
"""

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from swiftlet.server.errors import ApiError
from swiftlet.server.settings import Settings

_OPEN = ("/health", "/")  # the page asks for the key itself
_OPEN_FOLDER = "/page/"


class Guard:
    """Refuses requests before anything else sees them."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._keys = [_digest(key) for key in settings.api_keys]
        self._origins = settings.cors_origins
        names = {"localhost", socket.gethostname(), settings.host, *settings.allowed_hosts}
        self._hosts = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), scope["path"]
        try:
            self._check_host(headers)
            self._check_origin(headers, scope["scheme"])
            # A browser asks without the key whether it may ask.
            if self._keys and not _is_open(path) and scope["method"] != "OPTIONS":
                scope["swiftlet.client"] = self._check_key(headers)
        except ApiError as error:
            await error.response(path)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        host = _host_name(headers.get("host", ""))
        # An address cannot be rebound, only a name can.
        if host in self._hosts or host.endswith(".localhost") or _is_address(host):
            return
        raise ApiError(
            403, "the Host header names another machine; allow it with --allow-host", code="host_not_allowed"
        )

    def _check_origin(self, headers: Headers, scheme: str) -> None:
        origin = headers.get("origin")
        if origin is None or origin in self._origins or "*" in self._origins:
            return
        if origin.lower() == f"{scheme}://{headers.get('host', '')}".lower():
            return
        message = "requests of web pages from elsewhere are refused; allow them with --cors-origin"
        raise ApiError(403, message, code="origin_not_allowed")

    def _check_key(self, headers: Headers) -> str:
        """Which key was given. All are compared, each in constant time."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        matches = [hmac.compare_digest(_digest(given), key) for key in self._keys]
        if any(matches):
            return f"key {matches.index(True)}"
        message = "the API key is wrong" if given else "an API key is needed: Authorization: Bearer KEY"
        raise ApiError(401, message, code="invalid_api_key")


def client_of(scope: Scope) -> str:
    """Who asks: by key if there are keys, else by address."""
    key: str | None = scope.get("swiftlet.client")
    client: Sequence[str] | None = scope.get("client")
    return f"{key or ''} {client[0] if client else ''}"


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith(_OPEN_FOLDER)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _host_name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
