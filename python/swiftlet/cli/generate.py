"""swiftlet generate: one answer to one prompt."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from swiftlet import InputError
from swiftlet.cli.answer import begin, print_dimming_thoughts
from swiftlet.cli.arguments import (
    add_engine_arguments,
    add_sampling_arguments,
    add_state_arguments,
    load_engine,
    sampling_options,
)
from swiftlet.cli.status_line import StatusLine
from swiftlet.thinking import begins_thinking, split_thinking

if TYPE_CHECKING:
    from swiftlet.chat_template import Message
    from swiftlet.engine import AnswerOptions

_DESCRIPTION = "Answers a prompt. The answer goes to stdout as it grows, statistics go to stderr."


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers the command."""
    parser = subparsers.add_parser("generate", help="answer a prompt", description=_DESCRIPTION)
    parser.add_argument("prompt", nargs="?", help='the prompt; "-", or none when there is a pipe: read it from stdin')
    parser.add_argument("--raw", action="store_true", help="continue the prompt as plain text, without chat template")
    parser.add_argument("--json", action="store_true", help="print one JSON object with everything, at the end")
    parser.add_argument(
        "--logprobs", type=int, metavar="N", help="with --json: logprobs of each token and the N likeliest"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no statistics")
    add_sampling_arguments(parser)
    add_engine_arguments(parser)
    add_state_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    prompt, options = _prompt(args)
    with load_engine(args) as engine:
        begun = not isinstance(prompt, str) and begins_thinking(engine.render(prompt, enable_thinking=args.think))
        stream, deltas = begin(lambda progress: engine.generate(prompt, on_prefill=progress, **options))
        if args.json:
            with StatusLine("answering") as status:
                for n, _ in enumerate(deltas):
                    status.update(f"answering, {n} pieces")
            reasoning, content = split_thinking(stream.result.text, begun=begun)
            parts = {"model": str(engine.path), "reasoning": reasoning, "content": content}
            print(json.dumps({**parts, **stream.result.to_dict()}, ensure_ascii=False))
            return 0
        print_dimming_thoughts(deltas, begun=begun)
        if not stream.result.text.endswith("\n"):
            print(flush=True)
        if not args.quiet:
            from swiftlet.cli.report import describe_stats

            print(describe_stats(stream.result), file=sys.stderr)
    return 0


def _prompt(args: argparse.Namespace) -> "tuple[str | list[Message], AnswerOptions]":
    """The prompt and all options for Engine.generate. Raises InputError for arguments that contradict each other."""
    if args.prompt is None and sys.stdin.isatty():
        raise InputError("give a prompt, or pipe one in")
    text = args.prompt
    if text in (None, "-"):
        text = _stdin() if args.raw else _stdin().removesuffix("\n")
    if not text.strip() and not args.raw:
        raise InputError("the prompt is empty")
    options = sampling_options(args)
    if args.logprobs is not None:
        if not args.json:
            raise InputError("--logprobs needs --json: they are not shown in text")
        options["logprobs"] = args.logprobs
    if args.raw:
        if args.system is not None or args.think is not None:
            raise InputError("--system and --think need the chat template, which --raw turns off")
        return text, {**options, "raw": True}
    system = [] if args.system is None else [{"role": "system", "content": args.system}]
    return [*system, {"role": "user", "content": text}], {**options, "enable_thinking": args.think}


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InputError(
            f"stdin is not valid {error.encoding} text: byte {error.start} is {error.object[error.start]:#x}"
        ) from error
