"""Shows how far a long task over many bytes is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

_QUIET_SECONDS = 2.0  # shorter tasks show nothing
_LINE_SECONDS = 10.0  # between the lines of a log


class ByteProgress:
    """Call it with bytes done, bytes in all, and what is in work. Writes to stderr."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._console = Console(stderr=True)
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
        if not self._console.is_terminal:
            if now - self._last >= _LINE_SECONDS:
                self._last = now
                print(f"{done / max(total, 1):4.0%} of {total:,} bytes, {what}", file=sys.stderr, flush=True)
            return
        if not self._bar:
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self._console, transient=True)
            self._bar.add_task(what, total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, description=what)
