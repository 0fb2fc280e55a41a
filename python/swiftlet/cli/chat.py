"""swiftlet chat: a conversation."""

import argparse
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from swiftlet import SwiftletError
from swiftlet.cli.answer import begin, print_dimming_thoughts
from swiftlet.cli.arguments import add_engine_arguments, add_sampling_arguments, load_engine, sampling_options
from swiftlet.thinking import begins_thinking, split_thinking

if TYPE_CHECKING:
    from swiftlet.engine import AnswerOptions, Engine
    from swiftlet.records import Completion

_HELP = """\
/system TEXT     begin anew with this system prompt; without TEXT: show it
/think on|off    let the model think first, or not; without a word: the template's choice
/reset           forget the conversation
/stats           figures of the last answer
/help            this list
/quit            leave; so does Ctrl-D
Ctrl-C stops an answer."""

_DESCRIPTION = "Talks with a model. Lines that begin with / are commands; /help lists them."


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers the command."""
    parser = subparsers.add_parser("chat", help="talk with a model", description=_DESCRIPTION)
    add_sampling_arguments(parser)
    add_engine_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    with load_engine(args) as engine:
        chat = Chat(engine, sampling_options(args), system=args.system, think=args.think)
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
        if terminal:
            _edit_lines()
            print("/help lists the commands, Ctrl-D leaves.")
        while (line := _read(terminal)) is not None:
            if line.strip() and not chat.take(line):
                break
    return 0


class Chat:
    """The conversation, and what the person types."""

    def __init__(self, engine: "Engine", options: "AnswerOptions", *, system: str | None, think: bool | None) -> None:
        self._engine = engine
        self._options = options
        self._system = system
        self._think = think
        self._turns: list[dict[str, Any]] = []
        self._last: Completion | None = None

    def take(self, line: str) -> bool:
        """Obeys a command or answers a message; False if it was the last."""
        command = re.fullmatch(r"/([a-z]+)(?:\s+(.*))?", line.strip(), re.DOTALL)
        if not command:
            self._answer(line)
            return True
        name, rest = command[1], (command[2] or "").strip()
        if name in ("quit", "exit"):
            return False
        if name == "help":
            print(_HELP)
        elif name == "reset":
            self._turns = []
            print("The conversation is forgotten.")
        elif name == "system":
            self._set_system(rest)
        elif name == "think":
            self._set_think(rest)
        elif name == "stats":
            self._show_stats()
        else:
            print(f"There is no command /{name}; /help lists them.")
        return True

    def _set_system(self, text: str) -> None:
        if text:
            self._system, self._turns = text, []
            print("A new conversation with this system prompt.")
        else:
            print(self._system if self._system is not None else "There is no system prompt.")

    def _set_think(self, word: str) -> None:
        choices = {
            "on": (True, "The model thinks first."),
            "off": (False, "The model does not think first."),
            "": (None, "The template chooses whether the model thinks first."),
        }
        if word not in choices:
            print("Say /think on, /think off, or /think for the template's choice.")
            return
        self._think, words = choices[word]
        print(words)

    def _show_stats(self) -> None:
        from swiftlet.cli.report import describe_stats

        print(describe_stats(self._last) if self._last else "There is no answer yet.")

    def _answer(self, text: str) -> None:
        """Says the answer and remembers both turns; after an error neither."""
        question = {"role": "user", "content": text}
        system = [] if self._system is None else [{"role": "system", "content": self._system}]
        messages = [*system, *self._turns, question]
        try:
            begun = begins_thinking(self._engine.render(messages, enable_thinking=self._think))
            completion = self._say(messages, begun)
        except SwiftletError as error:
            print(f"swiftlet: error: {error}", file=sys.stderr)
            return
        if completion is None:
            return
        self._last = completion
        reasoning, content = split_thinking(completion.text, begun=begun)
        answer = {"role": "assistant", "content": content}
        self._turns += [question, answer if reasoning is None else {**answer, "reasoning_content": reasoning}]

    def _say(self, messages: list[dict[str, Any]], begun: bool) -> "Completion | None":
        """Streams the answer, thoughts dimmed on a terminal; None if Ctrl-C came before its first word."""
        stream = None
        try:
            stream, deltas = begin(self._engine, messages, {**self._options, "enable_thinking": self._think})
            print_dimming_thoughts(deltas, begun=begun)
        except KeyboardInterrupt:
            print("\n[stopped]")
            if stream is None:
                return None
            stream.close()
        else:
            print("\n", flush=True)
        return stream.result


def _read(terminal: bool) -> str | None:
    """The next line; None at the end of the input."""
    while True:
        try:
            return input("> ") if terminal else next(sys.stdin, None)
        except EOFError:
            print()
            return None
        except KeyboardInterrupt:
            if not terminal:
                raise
            print("\n(Ctrl-D leaves)")


def _edit_lines() -> None:
    """Arrow keys and a history of this conversation, where Python has readline."""
    with suppress(ImportError):
        import readline  # noqa: F401 (input() uses it once it is imported)
