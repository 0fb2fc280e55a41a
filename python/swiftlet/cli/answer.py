"""An answer on its way to a person."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from swiftlet.cli.status_line import StatusLine
from swiftlet.thinking import BEGIN, END

if TYPE_CHECKING:
    from swiftlet.generation import PrefillProgress
    from swiftlet.records import Delta

Answer = TypeVar("Answer", bound="Iterator[Delta]")


def begin(start: "Callable[[PrefillProgress], Answer]") -> "tuple[Answer, Iterator[Delta]]":
    """Starts an answer and prefills, with a status line if it takes long; the answer, and its deltas from the first on.

    `start` gets the function to call with the progress.
    """
    status = StatusLine("reading the prompt")

    def show(done: int, total: int) -> None:
        status.update(f"reading the prompt, {done} of {total} tokens")

    answer = start(show)
    with status:
        first = next(answer, None)
    return answer, chain(() if first is None else (first,), answer)


def print_dimming_thoughts(deltas: "Iterable[Delta]", *, begun: bool) -> None:
    """Prints deltas as they come, thoughts dim if on a terminal. `begun`: the answer starts inside the thoughts."""
    colour = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    dim, plain = ("\x1b[2m", "\x1b[0m") if colour else ("", "")
    try:
        print(dim + BEGIN + "\n" if begun else "", end="")  # the tag itself stands in the prompt
        for delta in deltas:
            print(delta.text.replace(BEGIN, dim + BEGIN).replace(END, END + plain), end="", flush=True)
    finally:
        print(plain, end="", flush=True)
