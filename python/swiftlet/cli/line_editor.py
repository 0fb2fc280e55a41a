"""Lines that a person types, with arrow keys and a history."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Self

_HISTORY_LINES = 1000


class LineEditor:
    """Reads lines from a terminal, or from a pipe.

    On a terminal, and where Python has readline, the arrow keys work, and what was typed is kept for the next time in
    $XDG_STATE_HOME/swiftlet/history (~/.local/state if that is not set), for this person's eyes only.
    """

    def __init__(self, terminal: bool, *, keep: bool) -> None:
        self._terminal = terminal
        self._keep = terminal and keep
        self._history = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "swiftlet" / "history"

    def __enter__(self) -> Self:
        if self._terminal:
            with suppress(ImportError):
                import readline  # input() uses it once it is imported

                readline.set_history_length(_HISTORY_LINES)
                if self._keep:
                    with suppress(OSError):
                        readline.read_history_file(self._history)
        return self

    def __exit__(self, *_: object) -> None:
        if self._keep:
            with suppress(ImportError, OSError):
                import readline

                self._history.parent.mkdir(parents=True, exist_ok=True)
                self._history.touch(mode=0o600)
                readline.write_history_file(self._history)

    def read(self) -> str | None:
        """The next line, with those that it goes on in; None at the end of the input."""
        line = self._line("> ")
        while line is not None and line.endswith("\\"):
            more = self._line(". ")
            line = line[:-1] + "\n" + (more or "")
        return line

    def _line(self, prompt: str) -> str | None:
        while True:
            try:
                if self._terminal:
                    return input(prompt)
                line = next(sys.stdin, None)
                return None if line is None else line.removesuffix("\n")
            except EOFError:
                print()
                return None
            except KeyboardInterrupt:
                if not self._terminal:
                    raise
                print("\n(Ctrl-D leaves)")


@contextmanager
def leave_on_signals() -> Iterator[None]:
    """Lets SIGTERM, and SIGHUP when the terminal goes, leave like an exit: what is open gets closed, and saved."""

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(number, leave) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
