"""Responses that take their time: streams of server-sent events, and answers that come as a whole."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from swiftlet.server.errors import json_bytes, log_failure

_GONE = 499  # what nobody will read

Result = TypeVar("Result")


def event(data: Any, name: str | None = None) -> bytes:
    """One server-sent event. `data`: a JSON value, or bytes to send as they are."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + (data if isinstance(data, bytes) else json_bytes(data)) + b"\n\n"


def comment(text: str) -> bytes:
    """A line that clients skip."""
    return f": {text}\n\n".encode()


class EventStream(Response):
    """Sends events while the client is there; `leave` is called as soon as it is not."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        self.status_code = 200
        self.background = None
        self._events = events
        self._leave = leave
        # Proxies must not collect the events.
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_connected(self._send(send), receive, self._leave)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for data in self._events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except OSError:
            raise
        except Exception as error:
            log_failure("a stream", error)
            raise RuntimeError("a stream failed") from None  # breaks the connection: the answer is not complete
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def while_connected(
    work: Awaitable[Result], receive: Callable[[], Awaitable[Any]], leave: Callable[[], None]
) -> Result | None:
    """The result of `work`; None if the client went away before. Whatever ends the work early, `leave` is called."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return None
    except OSError:  # from sending to a client that is gone
        return None
    finally:
        watch.cancel()
        if not task.done() or task.cancelled() or task.exception() is not None:
            leave()
            task.cancel()


async def whole(request: Request, work: Awaitable[Any], leave: Callable[[], None]) -> Response:
    """A JSON response of what `work` gives."""
    content = await while_connected(work, request.receive, leave)
    if content is None:
        return Response(status_code=_GONE)
    return Response(json_bytes(content), media_type="application/json")


async def _disconnect(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
