"""The server as a process."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn

from swiftlet import InputError
from swiftlet.engine import Engine
from swiftlet.server.app import make_app
from swiftlet.server.settings import Settings

_BACKLOG = 512
_IDLE_SECONDS = 60  # that a connection is kept for the client's next request


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises InputError if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host}, port {port}: {error.strerror}; choose another with --port"
        ) from error
    return listener


def make_server(engine: Engine, settings: Settings, *, drain_seconds: int) -> uvicorn.Server:
    """The server, not started. On its end it waits so long for answers that are under way."""
    config = uvicorn.Config(
        make_app(engine, settings),
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=drain_seconds,
    )
    return uvicorn.Server(config)


def serve(
    engine: Engine, settings: Settings, listener: socket.socket, *, drain_seconds: int, ready: Callable[[], None]
) -> None:
    """Serves until SIGTERM or SIGINT; then answers that are under way are finished, and new requests refused."""
    server = make_server(engine, settings, drain_seconds=drain_seconds)

    async def main() -> None:
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not task.done():
            await asyncio.sleep(0.02)
        if server.started:
            ready()
        await task

    # The server raises the signal again once it has ended; this end is no failure.
    before = {number: signal.signal(number, _nothing) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        asyncio.run(main())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_to_stderr(*, quiet: bool) -> None:
    """One line for each request, and what goes wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    for name, level in (("swiftlet", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING if quiet else level)


def _nothing(number: int, frame: FrameType | None) -> None:
    pass
