"""An answer as it streams, taken apart into reasoning, content and function calls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swiftlet.thinking import ThinkingSplitter
from swiftlet.tool_calls import CallArguments, CallBegin, Text, ToolCallParser, new_call_id

_CALL = "<tool_call>"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's thoughts."""

    text: str


AnswerEvent = Reasoning | Text | CallBegin | CallArguments


class AnswerParser:
    """What comes out does not depend on how the answer is cut into pieces."""

    def __init__(
        self,
        *,
        begun: bool | None,
        tools: Sequence[Mapping[str, Any]] = (),
        new_id: Callable[[], str] = new_call_id,
        must_call: bool = False,
    ) -> None:
        """`begun`: the prompt ended inside the thoughts; None: there can be none. `tools`: functions to be called.
        `must_call`: the answer is nothing but calls."""
        self._thinking = ThinkingSplitter(begun=begun)
        self._tools = tools
        self._new_id = new_id
        self._calls = ToolCallParser(tools, new_id, must_call=must_call) if tools else None
        self._call_in_thoughts = ""  # what the thoughts hold from a tag on

    @property
    def thinking(self) -> bool:
        """True inside the thoughts."""
        return self._thinking.thinking and not self._thinking.undecided

    @property
    def calls(self) -> int:
        """Function calls that have begun."""
        return self._calls.calls if self._calls is not None else 0

    @property
    def pending(self) -> str:
        """Content that may turn out to begin a call."""
        return self._calls.pending if self._calls is not None else ""

    def push(self, text: str) -> list[AnswerEvent]:
        """What is certain once this text has come."""
        return self._events(*self._thinking.push(text))

    def finish(self, *, cut: bool) -> list[AnswerEvent]:
        """What is left at the end. `cut`: the answer did not end by itself, but at max_tokens for one."""
        inside = self._thinking.thinking
        events = self._events(*self._thinking.finish())
        if self._calls is None:
            return events
        if inside and not cut and self._call_in_thoughts:
            events += self._forgotten_calls()
        return events + self._calls.finish(cut=cut)

    def _events(self, thought: str, content: str) -> list[AnswerEvent]:
        events: list[AnswerEvent] = [Reasoning(thought)] if thought else []
        if self._calls is None:
            return events + ([Text(content)] if content else [])
        self._call_in_thoughts = self._from_tag(self._call_in_thoughts + thought)
        return events + (self._calls.push(content) if content else [])

    @staticmethod
    def _from_tag(thoughts: str) -> str:
        """The thoughts from the first tag on, or as much of their end as may belong to one."""
        start = thoughts.find(_CALL)
        return thoughts[start:] if start >= 0 else thoughts[-len(_CALL) + 1 :]

    def _forgotten_calls(self) -> list[AnswerEvent]:
        """Calls at the very end of thoughts that never ended: the model has forgotten </think>."""
        parser = ToolCallParser(self._tools, self._new_id)
        events = parser.push(self._call_in_thoughts) + parser.finish(cut=False)
        if not parser.calls or any(isinstance(event, Text) for event in events):
            return []
        self._calls = parser
        return list(events)
