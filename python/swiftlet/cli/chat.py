"""swiftlet chat: a conversation."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swiftlet import InputError, SwiftletError
from swiftlet.cli.answer import begin, print_dimming_thoughts
from swiftlet.cli.arguments import (
    add_engine_arguments,
    add_sampling_arguments,
    add_state_arguments,
    load_engine,
    sampling_options,
)
from swiftlet.cli.line_editor import LineEditor, leave_on_signals

if TYPE_CHECKING:
    from swiftlet.chat_template import Message
    from swiftlet.engine import AnswerOptions, Engine
    from swiftlet.records import Completion
    from swiftlet.session import Session

_HELP = """\
/system TEXT     begin anew with this system prompt; without TEXT: show it
/think on|off    let the model think first, or not; without a word: the template's choice
/retry           another answer to the last message
/reset           forget the conversation
/save FILE       write the conversation to a file; without FILE: to the one it came from
/load FILE       go on with the conversation in a file
/stats           figures of the last answer, and what is kept of conversations
/help            this list
/exit            leave; so do /quit and Ctrl-D
A line that ends with \\ goes on in the next. Ctrl-C stops an answer."""

_DESCRIPTION = "Talks with a model. Lines that begin with / are commands; /help lists them."


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers the command."""
    parser = subparsers.add_parser("chat", help="talk with a model", description=_DESCRIPTION)
    parser.add_argument("--load", metavar="FILE", help="go on with a conversation that /save wrote")
    parser.add_argument("--no-history", action="store_true", help="do not keep what is typed for the next start")
    add_sampling_arguments(parser)
    add_engine_arguments(parser)
    add_state_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the command; the exit status."""
    if args.load and args.system is not None:
        raise InputError("--load brings its own system prompt: leave --system out")
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with load_engine(args) as engine, leave_on_signals(), LineEditor(terminal, keep=not args.no_history) as editor:
        chat = Chat(engine, sampling_options(args), system=args.system, think=args.think)
        if args.load:
            chat.load(args.load)
        if terminal:
            print("/help lists the commands, Ctrl-D leaves.")
        while (line := editor.read()) is not None:
            if line.strip() and not chat.take(line):
                break
    return 0


class Chat:
    """The conversation, and what the person types."""

    def __init__(self, engine: "Engine", options: "AnswerOptions", *, system: str | None, think: bool | None) -> None:
        self._engine = engine
        self._options = options
        self._think = think
        self._last: Completion | None = None
        self._file: Path | None = None
        self._begin_anew(system)

    def take(self, line: str) -> bool:
        """Obeys a command or answers a message; False if it was the last."""
        command = re.fullmatch(r"/([a-z]+)(?:\s+(.*))?", line.strip(), re.DOTALL)
        try:
            if not command:
                self._answer(line)
                return True
            name, rest = command[1], (command[2] or "").strip()
            if name in ("quit", "exit"):
                return False
            commands: dict[str, Callable[[str], None]] = {
                "help": lambda _: print(_HELP),
                "load": self.load,
                "reset": self._reset,
                "retry": self._retry,
                "save": self.save,
                "stats": self._show_stats,
                "system": self._set_system,
                "think": self._set_think,
            }
            if name in commands:
                commands[name](rest)
            else:
                print(f"There is no command /{name}; /help lists them.")
        except SwiftletError as error:
            print(f"swiftlet: error: {error}", file=sys.stderr)
        return True

    def save(self, name: str) -> None:
        """Writes the conversation to a file, which may exist only if the conversation came from it."""
        path = Path(name).expanduser() if name else self._file
        if path is None:
            raise InputError("say where to: /save FILE")
        record = {"messages": self._session.messages, "enable_thinking": self._think}
        try:
            if path.exists() and path != self._file:
                raise InputError(f"{path} exists already; choose another name")
            temporary = path.with_name(path.name + ".tmp")
            temporary.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error
        self._file = path
        print(f"Saved to {path}.")

    def load(self, name: str) -> None:
        """Goes on with the conversation in a file that save() wrote."""
        if not name:
            raise InputError("say which: /load FILE")
        path = Path(name).expanduser()
        messages, think = _read(path)
        if messages:
            self._engine.render(messages, enable_thinking=think)  # what the template refuses is not loaded
        self._session, self._think, self._file = self._talk(messages), think, path
        turns = sum(message["role"] == "user" for message in messages)
        print(f"Loaded {path}: {turns} question{'' if turns == 1 else 's'}.")

    def _talk(self, messages: "Sequence[Message]") -> "Session":
        from swiftlet.session import Session  # costs much time to import

        return Session(self._engine, messages=messages)

    def _begin_anew(self, system: str | None) -> None:
        messages = [] if system is None else [{"role": "system", "content": system}]
        self._session, self._file = self._talk(messages), None

    @property
    def _system(self) -> str | None:
        messages = self._session.messages
        return str(messages[0]["content"]) if messages and messages[0]["role"] == "system" else None

    def _reset(self, _: str) -> None:
        self._begin_anew(self._system)
        print("The conversation is forgotten.")

    def _set_system(self, text: str) -> None:
        if text:
            self._begin_anew(text)
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

    def _show_stats(self, _: str) -> None:
        from swiftlet.cli.report import describe_states, describe_stats

        if self._last:
            used = self._last.stats.prompt_tokens + self._last.stats.completion_tokens
            print(describe_stats(self._last))
            print(f"context: {used} of {self._engine.context} tokens")
        else:
            print("There is no answer yet.")
        print(describe_states(self._engine.stats))

    def _retry(self, _: str) -> None:
        messages = self._session.messages
        asked = next((i for i in reversed(range(len(messages))) if messages[i]["role"] == "user"), None)
        if asked is None:
            raise InputError("there is nothing to answer yet")
        before = self._session
        self._session = self._talk(messages[:asked])
        self._answer(messages[asked:][:1])
        if self._session.messages == messages[:asked]:  # it failed, or was stopped before its first word
            self._session = before

    def _answer(self, message: "str | Sequence[Message]") -> None:
        """Says the answer, thoughts dimmed on a terminal. Ctrl-C ends it; what was said stays."""
        reply = None
        options: Any = {**self._options, "enable_thinking": self._think}
        try:
            reply, deltas = begin(lambda progress: self._session.send(message, on_prefill=progress, **options))
            print_dimming_thoughts(deltas, begun=reply.begins_thinking)
            print("\n", flush=True)
        except KeyboardInterrupt:
            print("\n[stopped]")
            self._session.end_reply()
        if reply is not None:
            self._last = reply.result


def _read(path: Path) -> "tuple[list[Message], bool | None]":
    """Messages and thinking of a saved conversation. Raises InputError."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a saved conversation: {error}") from error
    messages = record.get("messages") if isinstance(record, dict) else None
    think = record.get("enable_thinking") if isinstance(record, dict) else None
    if not isinstance(messages, list) or not isinstance(think, bool | None):
        raise InputError(f'{path} is not a saved conversation: it needs "messages", a list')
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InputError(f'{path} is not a saved conversation: a message has no "role"')
        if not isinstance(message.get("content"), str | None):
            raise InputError(f'{path} is not a saved conversation: "content" is no text')
    return messages, think
