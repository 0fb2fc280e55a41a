"""swiftlet serve: an HTTP server with the APIs of OpenAI and Anthropic, and a chat page."""

import argparse
import ipaddress
import os
import sys

from swiftlet import InputError
from swiftlet.cli.arguments import add_engine_arguments, add_state_arguments, load_engine

_DESCRIPTION = """\
Serves the model with the APIs of OpenAI (/v1/chat/completions, /v1/completions, /v1/responses, /v1/models) and
Anthropic (/v1/messages), a chat page at /, and /health and /metrics. Answers are made one at a time; the others wait in
a queue. SIGTERM lets answers that are under way finish. Needs: pip install 'pyswiftlet[server]'
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers the command."""
    parser = subparsers.add_parser("serve", help="serve the model over HTTP", description=_DESCRIPTION)
    group = parser.add_argument_group("server")
    group.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)"
    )
    group.add_argument("--port", type=int, default=8080, help="default: 8080; 0: any that is free")
    group.add_argument("--name", help="the model's name in the API (default: that of the container)")
    group.add_argument(
        "--alias", action="append", default=[], metavar="NAME", help='another name for it; "*": any name will do'
    )
    group.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help="clients must send it; may be repeated. Out of sight of `ps`: in the environment, as SWIFTLET_API_KEY",
    )
    group.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="a name that this server has")
    group.add_argument(
        "--cors-origin", action="append", default=[], metavar="ORIGIN", help="web pages from there may ask, too"
    )
    group.add_argument("--max-body", default="32MB", metavar="SIZE", help="the largest request (default: 32MB)")
    group.add_argument("--queue", type=int, default=32, metavar="N", help="requests that may wait (default: 32)")
    group.add_argument("--queue-each", type=int, metavar="N", help="of them, for each client (default: all)")
    group.add_argument(
        "--drain", type=int, default=60, metavar="S", help="on SIGTERM, seconds for answers to finish (default: 60)"
    )
    group.add_argument("--no-page", action="store_true", help="no chat page at /")
    group.add_argument("--quiet", action="store_true", help="no line for each request")
    add_engine_arguments(parser)
    add_state_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    for name, least in (("port", 0), ("queue", 0), ("queue_each", 0), ("drain", 0)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise InputError(f"--{name.replace('_', '-')} is {value}; it must be {least} or more")
    try:
        # Loaded before the engine, so that the memory plan counts it.
        from swiftlet.server import run as server
        from swiftlet.server.settings import Settings
    except ImportError as error:
        raise InputError(f"the server needs {error.name}: pip install 'pyswiftlet[server]'") from error
    from swiftlet.memory import parse_bytes
    from swiftlet.models import resolve

    keys = [*args.api_key, *filter(None, [os.environ.get("SWIFTLET_API_KEY")])]
    settings = Settings(
        name=args.name or resolve(args.model).resolve().name.removesuffix(".qpack"),
        aliases=tuple(args.alias),
        api_keys=tuple(keys),
        host=args.host,
        allowed_hosts=tuple(args.allow_host),
        cors_origins=tuple(args.cors_origin),
        max_body=parse_bytes(args.max_body, "--max-body"),
        max_waiting=args.queue,
        max_waiting_each=args.queue_each,
        chat_page=not args.no_page,
    )
    server.log_to_stderr(quiet=args.quiet)
    listener = server.listen(args.host, args.port)
    port = listener.getsockname()[1]
    if not keys and not _is_loopback(args.host):
        print(
            f"swiftlet: warning: everybody who reaches {args.host} can use this server; set --api-key", file=sys.stderr
        )
    with load_engine(args) as engine:

        def ready() -> None:
            host = f"[{args.host}]" if ":" in args.host else args.host
            print(f"{settings.name} is served at http://{host}:{port}", flush=True)

        server.serve(engine, settings, listener, drain_seconds=args.drain, ready=ready)
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
