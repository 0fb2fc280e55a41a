"""Tokens to text while they come: whole characters only, and nothing of a stop string."""

import codecs
from collections.abc import Sequence

from swiftlet.thinking import END
from swiftlet.tokenizer import Tokenizer


class TextStream:
    """Turns a stream of token ids into text, at a cost per token that does not grow with the text.

    The pieces joined are what Tokenizer.decode gives for all ids, cut before the first stop string. Bytes of an
    incomplete character wait for the rest, and so does text that may be the beginning of a stop string.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), *, in_thoughts: bool = False) -> None:
        """`in_thoughts`: the text begins inside the thoughts, and stop strings count only after </think> and the line
        breaks that follow it."""
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._in_thoughts = in_thoughts and bool(stop)
        self._in_gap = False  # behind </think>, where only line breaks have come
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stopped: str | None = None
        """The stop string that was met: nothing follows."""

    def push(self, id: int) -> str:
        """The text that can be shown after this token; special tokens have none."""
        if id in self._tokenizer.special_ids:
            return ""
        return self._show(self._decoder.decode(self._tokenizer.token_bytes(id)))

    def finish(self) -> str:
        """What was held back; incomplete characters become U+FFFD."""
        text = self._show(self._decoder.decode(b"", final=True)) + self._held
        self._held = ""
        return text

    def _show(self, piece: str) -> str:
        if self.stopped is not None:
            return ""
        text = self._held + piece
        if self._in_thoughts:
            thoughts, end, rest = text.partition(END)
            if not end:
                keep = _overlap(text, END)
                self._held = text[len(text) - keep :]
                return text[: len(text) - keep]
            self._in_thoughts, self._in_gap, self._held = False, True, ""
            return thoughts + end + self._show(rest)
        if self._in_gap:
            content = text.lstrip("\n")
            if not content:
                return text
            self._in_gap = False
            return text[: len(text) - len(content)] + self._show(content)
        # The string that is complete first wins, whatever the token boundaries; of two that end together, the longer.
        met = [(start + len(stop), start, stop) for stop in self._stop if (start := text.find(stop)) >= 0]
        if met:
            _, start, self.stopped = min(met)
            self._held = ""
            return text[:start]
        keep = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop` without completing it."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
