"""Shows how far a long task over many bytes is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress

_QUIET_SECONDS = 2.0  # shorter tasks show nothing
_LINE_SECONDS = 10.0  # between the lines of a log


class ByteProgress:
    """Call it with bytes done, bytes in all, and what is in work. Writes to stderr."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if now - self._start < _QUIET_SECONDS:
            return
        if not self._terminal:
            if now - self._last >= _LINE_SECONDS:
                self._last = now
                print(f"{done / max(total, 1):4.0%} of {total:,} bytes, {what}", file=sys.stderr, flush=True)
            return
        if not self._bar:
            self._bar = _bar(what, total)
        self._bar.update(self._bar.task_ids[0], completed=done, description=what)


def _bar(what: str, total: int) -> Progress:
    """Imports rich only now: every start of the command line imports this module."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    bar.add_task(what, total=total)
    bar.start()
    return bar
