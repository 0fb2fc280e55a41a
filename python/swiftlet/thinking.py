"""Reasoning models answer with their thoughts first, then </think>, then what they have to say."""

from typing import Literal

BEGIN, END = "<think>", "</think>"

_State = Literal["undecided", "opening", "thoughts", "gap", "content"]


class ThinkingSplitter:
    """Splits an answer into reasoning and content while it comes.

    Only an answer that begins with <think>, or inside the thoughts because the prompt ends with it, has reasoning; the
    first </think> ends it, and later tags are content. Space around the thoughts is dropped, and line breaks before the
    content.
    """

    def __init__(self, *, begun: bool | None) -> None:
        """`begun`: the prompt ended inside the thoughts. None: there can be none, tags are content."""
        self._state: _State = "content" if begun is None else "opening" if begun else "undecided"
        self._held = ""

    @property
    def thinking(self) -> bool:
        """True while it is not certain that what comes next is content."""
        return self._state in ("undecided", "opening", "thoughts")

    @property
    def undecided(self) -> bool:
        """True while it is not known whether there are thoughts."""
        return self._state == "undecided"

    def push(self, text: str) -> tuple[str, str]:
        """Reasoning and content that are certain once this text has come."""
        self._held += text
        return self._split(final=False)

    def finish(self) -> tuple[str, str]:
        """What is left at the end of the answer."""
        return self._split(final=True)

    def _split(self, *, final: bool) -> tuple[str, str]:
        if self._state == "undecided":
            self._decide(final=final)
        if self._state == "opening":
            self._open(final=final)
        thought = self._thoughts(final=final) if self._state == "thoughts" else ""
        if self._state == "gap":
            self._held = self._held.lstrip("\n")
            self._state = "content" if self._held else "gap"
        content = ""
        if self._state == "content":
            content, self._held = self._held, ""
        return thought, content

    def _decide(self, *, final: bool) -> None:
        beginning = self._held.lstrip()
        if beginning.startswith(BEGIN):
            self._state = "opening"
        elif final or not BEGIN.startswith(beginning):
            self._state = "content"

    def _open(self, *, final: bool) -> None:
        """Waits for the first character of the thoughts. The model may repeat the tag of the prompt."""
        beginning = self._held.lstrip()
        thoughts = beginning.removeprefix(BEGIN).lstrip()
        if final or (thoughts and not BEGIN.startswith(beginning)):
            self._state, self._held = "thoughts", thoughts

    def _thoughts(self, *, final: bool) -> str:
        thought, end, rest = self._held.partition(END)
        if end:
            self._state, self._held = "gap", rest
        elif final:
            self._held = ""
        else:
            thought = thought[: len(thought) - _partial_end(thought)]
            self._held = self._held[len(thought.rstrip()) :]
        return thought.rstrip()


def split_thinking(text: str, *, begun: bool) -> tuple[str | None, str]:
    """Reasoning (None: there is none) and content of a whole answer, as ThinkingSplitter does it."""
    splitter = ThinkingSplitter(begun=begun)
    (thought, content), (last_thought, last_content) = splitter.push(text), splitter.finish()
    has_thoughts = begun or text.lstrip().startswith(BEGIN)
    return thought + last_thought if has_thoughts else None, content + last_content


def begins_thinking(prompt: str) -> bool:
    """True if the answer to this rendered prompt begins inside the thoughts."""
    return prompt.rstrip().endswith(BEGIN)


def _partial_end(text: str) -> int:
    """Length of the longest end of `text` that begins </think>."""
    return next((n for n in range(min(len(text), len(END) - 1), 0, -1) if text.endswith(END[:n])), 0)
