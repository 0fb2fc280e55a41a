"""Runs pieces of work on a few threads, a few ahead of the one that is waited for, so that memory stays bounded."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

THREADS = min(4, os.cpu_count() or 1)

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# Called with bytes done, bytes in all, and the name of the file in work.
Progress = Callable[[int, int, str], None]


def in_threads(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
    """Results in the order of the pieces. After an error, or when the caller stops, no further piece is begun."""
    pool = ThreadPoolExecutor(THREADS)
    pending: deque[Future[Result]] = deque()
    try:
        for piece in pieces:
            pending.append(pool.submit(work, piece))
            if len(pending) > 2 * THREADS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
