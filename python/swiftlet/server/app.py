"""The addresses of the server."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swiftlet.engine import Engine
from swiftlet.server.answers import Answers
from swiftlet.server.anthropic import count_tokens, messages
from swiftlet.server.chat import chat_completions
from swiftlet.server.common import check_model, now
from swiftlet.server.completions import completions
from swiftlet.server.errors import ApiError, json_bytes, log_failure
from swiftlet.server.metrics import Metrics
from swiftlet.server.page import page_file
from swiftlet.server.requests import check_length
from swiftlet.server.responses import Conversations, responses
from swiftlet.server.security import Guard, client_of
from swiftlet.server.settings import Settings

_log = logging.getLogger("swiftlet.server")

Handler = Callable[[Request, Answers, Settings, str], Awaitable[Response]]


def make_app(engine: Engine, settings: Settings) -> ASGIApp:
    """The server as an ASGI application. It ends its thread, but leaves the engine open, when it is shut down."""
    metrics = Metrics()
    answers = Answers(engine, settings, metrics)
    metrics.watch(lambda: engine.stats, lambda: answers.queue.waiting, lambda: answers.queue.running)
    conversations = Conversations()
    created = now()

    def api(handler: Handler, *, queues: bool = True) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            client = client_of(request.scope)
            try:
                check_length(request, settings.max_body)
                if queues:
                    answers.check_room(client)  # before megabytes are read that would be refused
                return await handler(request, answers, settings, client)
            except (ApiError, HTTPException):
                raise
            except Exception as error:
                log_failure("a request", error)
                raise ApiError(500, "the request failed for a reason that is not its own") from None

        return endpoint

    async def answer_responses(request: Request, answers: Answers, settings: Settings, client: str) -> Response:
        return await responses(request, answers, settings, client, conversations)

    def model_object(name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "swiftlet",
            # The rest is what Anthropic's clients look for, and others.
            "type": "model",
            "display_name": name,
            "created_at": datetime.fromtimestamp(created, UTC).isoformat(),
            "max_model_len": engine.context,
        }

    async def models(request: Request) -> Response:
        names = settings.names
        listed = {"first_id": names[0], "last_id": names[-1], "has_more": False}
        return _json({"object": "list", "data": [model_object(name) for name in names], **listed})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        check_model(name, settings)
        return _json(model_object(name))

    async def health(request: Request) -> Response:
        return _json({"status": "ok"})

    async def prometheus(request: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    async def stats(request: Request) -> Response:
        queue = answers.queue
        config = {key: engine.config[key] for key in ("model_type", "context", "backend", "io")}
        return _json({"engine": engine.stats, "waiting": queue.waiting, "running": queue.running, "config": config})

    routes = [
        Route("/v1/chat/completions", api(chat_completions), methods=["POST"]),
        Route("/v1/completions", api(completions), methods=["POST"]),
        Route("/v1/responses", api(answer_responses), methods=["POST"]),
        Route("/v1/messages", api(messages), methods=["POST"]),
        Route("/v1/messages/count_tokens", api(count_tokens, queues=False), methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        Route("/health", health),
        Route("/metrics", prometheus),
        Route("/stats", stats),
    ]
    if settings.chat_page:
        routes += [Route("/", page_file), Route("/page/{name}", page_file)]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        answers.close()

    middleware = [Middleware(Guard, settings=settings)]
    if settings.cors_origins:
        cors = Middleware(
            CORSMiddleware, allow_origins=list(settings.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
        middleware.insert(0, cors)
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=middleware,
        exception_handlers={ApiError: _refuse, HTTPException: _refuse},
    )
    return _Watched(app, metrics, {route.path for route in routes})


class _Watched:
    """Counts requests and writes a line for each: what was asked for, never what was said."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: set[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.monotonic(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            seconds = time.monotonic() - begin
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(seconds)
            _log.info("%s %s %s in %.2f s", scope["method"], path, status or "gone", seconds)


def _json(content: Any) -> Response:
    return Response(json_bytes(content), media_type="application/json")


async def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        words = {404: "there is nothing at this address", 405: "this address does not take this method"}
        error = ApiError(error.status_code, words.get(error.status_code, error.detail))
    assert isinstance(error, ApiError)
    return error.response(request.url.path)
