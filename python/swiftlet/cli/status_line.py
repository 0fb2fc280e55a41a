"""One line on stderr for things that take more than two seconds."""

import os
import shutil
import sys
import threading
import time
from typing import Self

_QUIET_SECONDS = 2.0
_REDRAW_SECONDS = 0.2  # on a terminal
_REPEAT_SECONDS = 10.0  # in a log


class StatusLine:
    """Shows a text and the seconds that passed: redrawn and finally wiped on a terminal, now and then in a log."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._start = time.monotonic()
        self._done = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._show, daemon=True)

    def update(self, text: str) -> None:
        """Another text from now on; cheap, may be called often."""
        self._text = text

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if self._shown and self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self) -> None:
        wait = _QUIET_SECONDS
        while not self._done.wait(wait):
            line = f"{self._text}, {time.monotonic() - self._start:.0f} s"
            if self._terminal:
                width = shutil.get_terminal_size().columns
                print(f"\r{line[: width - 1]}\x1b[K", end="", file=sys.stderr, flush=True)
            else:
                print(line, file=sys.stderr, flush=True)
            self._shown = True
            wait = _REDRAW_SECONDS if self._terminal else _REPEAT_SECONDS
