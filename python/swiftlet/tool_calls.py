"""Function calls in an answer, found while the answer streams.

Models of the Qwen family write a call in one of two forms:

    <tool_call>                             <tool_call>
    <function=get_weather>                  {"name": "get_weather", "arguments": {"city": "Paris"}}
    <parameter=city>                        </tool_call>
    Paris
    </parameter>
    </function>
    </tool_call>

and sometimes forget a wrapper or a closing tag. What is no call is text: nothing that a model says is ever lost. Only
the beginning of a call that was cut off before the function's name was complete is neither, and left out.
"""

import re
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swiftlet.json_values import (
    JsonScanner,
    complete_members,
    dump,
    fit,
    is_json,
    may_be_structured,
    parse_object,
    property_schema,
    typed_value,
)

_CALL, _END_CALL = "<tool_call>", "</tool_call>"
_FUNCTION, _END_FUNCTION = "<function=", "</function>"
_PARAMETER, _END_PARAMETER = "<parameter=", "</parameter>"
_SPACE = " \t\r\n"  # JSON's, and the grammar's of strict calls: what it takes for text must be none here
_GAP = rf"[{_SPACE}]*"
_MAX_NAME = 256  # characters in the name of a function or parameter
_NAME = rf"(?P<name>[^>\n]{{1,{_MAX_NAME}}})>"

_OPENING = re.compile(rf"<tool_call>(?:{_GAP}(?P<brace>\{{))?|<function=")
_XML_HEAD = re.compile(rf"(?P<wrapper><tool_call>{_GAP})?<function={_NAME}")
_JSON_HEAD = re.compile(
    rf'\{{{_GAP}"name"{_GAP}:{_GAP}"(?P<name>[^"\\]+)"'
    rf'(?:{_GAP},{_GAP}"(?:arguments|parameters)"{_GAP}:{_GAP}(?P<arguments>\{{))?'
)
_BARE_CALL = ('{"name":"%s","arguments":{', '{"name":"%s","parameters":{')  # without space

_PARAMETER_HEAD = re.compile(_PARAMETER + _NAME)
_PARAMETER_TAG = re.compile(rf"</parameter>|<parameter={_NAME}")
# What can stand behind the end of a value, if that is one.
_AFTER_VALUE = re.compile(rf"\s*(?:</function>(?P<closed>\s*</tool_call>|\s*<function=)?|<parameter={_NAME})")
# The same behind an object or a list, which shows by itself where it ends.
_AFTER_STRUCTURE = re.compile(rf"\s*(?:</parameter>|(?=</function>|</tool_call>|<parameter={_NAME}))")
# Ends of a value at the end of an answer, where some closing tags are missing.
_LOOSE_END = re.compile(
    r"(?P<tag></parameter>)"
    r"|(?=\s*</function>\s*(?:</tool_call>|<tool_call>|<function=|\Z))"
    r"|(?=\s*</tool_call>\s*(?:<tool_call>|\Z))"
    rf"|(?=\n<parameter={_NAME}\n)"
)


@dataclass(frozen=True, slots=True)
class Text:
    """Words of the answer itself."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegin:
    """A call begins. `index` counts the calls of an answer, from 0."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the JSON text of a call's arguments; all pieces joined are one JSON object."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class _JsonCall:
    """A call in JSON form, and how many characters it took with its opening tag."""

    name: str
    arguments: dict[str, Any]
    length: int


ToolEvent = Text | CallBegin | CallArguments
_Events = Generator[ToolEvent | None, None, None]


def new_call_id() -> str:
    """An id that no other call has."""
    return f"call_{secrets.token_hex(12)}"


class ToolCallParser:
    """Takes an answer apart into text and calls, as it comes.

    The result does not depend on how the answer is cut into pieces. Parameters are handed out one by one when they are
    complete, so the arguments of a call that was cut off are those that were complete, as valid JSON. Values get the
    types that the function's JSON schema wants. Space around calls is dropped.
    """

    def __init__(
        self, tools: Sequence[Mapping[str, Any]], new_id: Callable[[], str] = new_call_id, *, must_call: bool = False
    ) -> None:
        """`tools`: as in OpenAI's API, {"type": "function", "function": {"name", "parameters"}}, or the inner part.
        `must_call`: there is nothing but calls, so that "<" at a cut is the beginning of one."""
        functions = [tool.get("function", tool) for tool in tools]
        self._schemas: dict[str, Any] = {function["name"]: function.get("parameters") for function in functions}
        self._new_id = new_id
        self._must_call = must_call
        self._buffer = ""  # what is not decided yet
        self._pending = ""
        self._scan = 0  # no call begins in the buffer before this
        self._scanner: JsonScanner | None = None  # of a call in JSON form that is not complete
        self._said = False
        self._calls = 0
        self._final = False
        self._cut = False
        self._machine = self._run()

    @property
    def calls(self) -> int:
        """Calls that have begun so far."""
        return self._calls

    @property
    def pending(self) -> str:
        """Text that may turn out to begin a call."""
        return self._pending

    def push(self, text: str) -> list[ToolEvent]:
        """What is certain once this text has come."""
        self._buffer += text
        return self._advance()

    def finish(self, *, cut: bool) -> list[ToolEvent]:
        """What is left at the end of the answer. `cut`: it did not end by itself, but at max_tokens for one."""
        self._final, self._cut = True, cut
        if cut and self._pending and self._is_half_call():
            self._buffer = ""
        return self._advance()

    def _is_half_call(self) -> bool:
        """Whether what is pending was surely to become a call, and has no name yet."""
        if not self._must_call and not self._pending.startswith((_CALL, _FUNCTION)):
            return False
        return _JSON_HEAD.match(self._pending.removeprefix(_CALL).lstrip(_SPACE)) is None

    def _advance(self) -> list[ToolEvent]:
        events: list[ToolEvent] = []
        for event in self._machine:
            if event is None:
                break
            last = events[-1] if events else None
            if isinstance(event, Text) and isinstance(last, Text):
                events[-1] = Text(last.text + event.text)
            elif isinstance(event, CallArguments) and isinstance(last, CallArguments):
                events[-1] = CallArguments(last.index, last.text + event.text)
            else:
                events.append(event)
        return events

    # What follows are generators that yield events, and None where they need more text: never after the end. They read
    # from the beginning of the buffer and take off what they are done with.

    def _run(self) -> _Events:
        while not (self._final and not self._buffer):
            call = yield from self._text()
            if isinstance(call, _JsonCall):
                yield from self._json_call(call)
            elif call is not None:
                yield from self._xml_call(call)

    def _take(self, count: int) -> str:
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        self._scan = max(0, self._scan - count)
        if self._scanner is not None:
            self._scanner.shift(count)
        return taken

    def _take_space(self) -> None:
        self._take(len(self._buffer) - len(self._buffer.lstrip(_SPACE)))

    def _begin(self, name: str) -> CallBegin:
        self._calls += 1
        return CallBegin(self._calls - 1, self._new_id(), name)

    # Text

    def _text(self) -> Generator[ToolEvent | None, None, _JsonCall | re.Match[str] | None]:
        """Text up to the next call, and that call: the buffer then begins with it. None: the answer has ended."""
        after_call = self._calls > 0
        if after_call:
            yield from self._end_of_wrapper()
        while True:
            start, call = self._find()
            text = self._buffer[:start]
            ends = self._final and call is None
            shown = text if ends else text.rstrip(_SPACE)  # space may turn out to stand before a call
            if after_call:
                shown = shown.lstrip(_SPACE)
            if shown:
                after_call = False
                self._said = self._said or bool(shown.strip(_SPACE))
                yield Text(shown)
            self._take(start if ends or call else len(text.rstrip(_SPACE)))
            self._pending = "" if ends or call else self._buffer.lstrip(_SPACE)
            if ends or call:
                return call
            yield None

    def _end_of_wrapper(self) -> _Events:
        while _becomes(self._buffer.lstrip(_SPACE), _END_CALL) and not self._final:
            yield None
        rest = self._buffer.lstrip(_SPACE)
        if rest.startswith(_END_CALL):
            self._take_space()
            self._take(len(_END_CALL))
        elif self._cut and _becomes(rest, _END_CALL):
            self._take(len(self._buffer))

    def _find(self) -> tuple[int, _JsonCall | re.Match[str] | None]:
        """Where the next call begins, and the call; without one, the place before which surely none begins."""
        if not self._said and (bare := self._find_bare()) is not None:
            return bare
        while (match := _OPENING.search(self._buffer, self._scan)) is not None:
            self._scan = start = match.start()
            call: _JsonCall | re.Match[str] | bool = False
            if match["brace"]:
                call = self._read_json(start, match.end() - 1)
            elif (head := _XML_HEAD.match(self._buffer, start)) is not None:
                call = head if head["wrapper"] or _clean(head["name"]) in self._schemas else False
            elif not self._final:
                call = _becomes_head(self._buffer[start:])
            if call is True:
                return start, None
            if call is not False:
                return start, call
            self._scan = max(self._scan, start + 1)  # a tag that is only talked about
        if self._final:
            return len(self._buffer), None
        return len(self._buffer) - _partial(self._buffer[self._scan :], (_CALL, _FUNCTION)), None

    def _find_bare(self) -> tuple[int, _JsonCall | None] | None:
        """An answer that begins with a call in JSON form without its wrapper. None: it does not."""
        start = len(self._buffer) - len(self._buffer.lstrip(_SPACE))
        if self._buffer[start : start + 1] != "{":
            return None
        if self._scanner is None:
            beginning = re.sub(_GAP, "", self._buffer[start : start + 2 * _MAX_NAME])
            forms = [form % name for name in self._schemas for form in _BARE_CALL]
            if not any(beginning.startswith(form) for form in forms):
                undecided = not self._final and any(_becomes(beginning, form) for form in forms)
                return (start, None) if undecided else None
        call = self._read_json(start, start)
        if call is False:
            return None
        return start, None if call is True else call

    # Calls in JSON form, which are taken as a whole

    def _read_json(self, start: int, brace: int) -> _JsonCall | bool:
        """The call that begins at `start`, its object at `brace`. True: that is not certain yet. False: it is none, and
        no call begins inside the object if that is complete."""
        if self._scanner is None:
            self._scanner = JsonScanner(brace)
        end = self._scanner.end(self._buffer)
        if end is None and not self._final:
            return True
        self._scanner = None
        if end is None:
            # Cut off, or its quotes do not match: then it ends where the wrapper does.
            end = self._buffer.find(_END_CALL, brace)
            end = len(self._buffer) if end < 0 else end
        else:
            self._scan = end
        text = self._buffer[brace:end]
        value, head = parse_object(text), _JSON_HEAD.match(text)
        if value is None and head is not None and (head["arguments"] or self._cut):
            members = complete_members(text[head.start("arguments") :]) if head["arguments"] else {}
            value = {"name": head["name"], "arguments": members}
        if value is None:
            return False
        arguments = value.get("arguments", value.get("parameters"))
        if isinstance(arguments, str):
            arguments = parse_object(arguments) if arguments.strip() else {}
        elif arguments is None:
            arguments = {}
        name = value.get("name") if head is None else head["name"]  # the first, if there are several
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return False
        return _JsonCall(name, arguments, end - start)

    def _json_call(self, call: _JsonCall) -> _Events:
        self._take(call.length)
        yield self._begin(call.name)
        yield CallArguments(self._calls - 1, dump(self._fit(call.arguments, self._schemas.get(call.name))))

    @staticmethod
    def _fit(arguments: Mapping[str, Any], schema: Any) -> dict[str, Any]:
        return {name: fit(value, property_schema(schema, name), schema) for name, value in arguments.items()}

    # Calls in XML form

    def _xml_call(self, head: re.Match[str]) -> _Events:
        self._take(head.end() - head.start())
        name = _clean(head["name"])
        yield self._begin(name)
        index = self._calls - 1
        separator = "{"
        members = self._members(self._schemas.get(name), wrapped=head["wrapper"] is not None)
        for member in members:
            if member is None:
                yield None
                continue
            yield CallArguments(index, f"{separator}{dump(member[0])}: {dump(member[1])}")
            separator = ", "
        yield CallArguments(index, "{}" if separator == "{" else "}")

    def _members(self, schema: Any, *, wrapped: bool) -> Generator[tuple[str, Any] | None, None, None]:
        """Parameters with their values, to the end of the function; each name once."""
        given: set[str] = set()
        strayed = False  # something stood there that is no parameter
        while True:
            self._take_space()
            if self._buffer.startswith(_END_FUNCTION):
                self._take(len(_END_FUNCTION))
                return
            if self._buffer.startswith((_END_CALL, _CALL, _FUNCTION)):
                return  # without its own closing tag
            if (tag := _PARAMETER_HEAD.match(self._buffer)) is not None:
                self._take(tag.end())
                name = _clean(tag["name"])
                expected = property_schema(schema, name)
                value = None
                if may_be_structured(expected, schema):
                    value = yield from self._structured_value()
                if value is None:
                    value = yield from self._value(given | {name}, wrapped=wrapped)
                if value is not None and name not in given:
                    yield name, typed_value(value, expected, schema)
                given.add(name)
            elif self._buffer.startswith("{") and not given and not strayed:
                for name, value in self._fit((yield from self._json_body()), schema).items():
                    yield name, value
                    given.add(name)
            elif self._final and not self._buffer:
                return
            elif not self._final and (not self._buffer or _becomes_tag(self._buffer)):
                yield None
            else:
                strayed = True
                following = self._buffer.find("<", 1)
                self._take(following if following > 0 else len(self._buffer))

    def _json_body(self) -> Generator[None, None, dict[str, Any]]:
        """Arguments that are written as a JSON object inside the function."""
        scanner = JsonScanner(0)
        while (end := scanner.end(self._buffer)) is None and not self._final:
            yield None
        text = self._take(len(self._buffer) if end is None else end)
        value = parse_object(text)
        return complete_members(text) if value is None else value

    def _structured_value(self) -> Generator[None, None, str | None]:
        """An object or a list, and the end tag behind it: tags inside its strings are text. None: there is none."""
        while not (self._buffer.lstrip(_SPACE) or self._final):
            yield None
        start = len(self._buffer) - len(self._buffer.lstrip(_SPACE))
        if self._buffer[start : start + 1] not in ("{", "["):
            return None
        scanner = JsonScanner(start)
        while (end := scanner.end(self._buffer)) is None and not self._final:
            yield None
        if end is None and self._cut:
            self._take(len(self._buffer))  # what came of it is no value
            return None
        if end is None or not is_json(self._buffer[start:end]):
            return None
        while (tag := _AFTER_STRUCTURE.match(self._buffer, end)) is None:
            if not _becomes_tag(self._buffer[end:].lstrip(_SPACE)):
                return None
            if self._final:
                return self._take(len(self._buffer))[start:end]
            yield None
        return self._take(tag.end())[start:end]

    def _value(self, given: set[str], *, wrapped: bool) -> Generator[None, None, str | None]:
        """Text of the parameter whose tag was taken last; takes its end too. None: it was cut off."""
        scan = depth = 0
        while True:
            while (tag := _PARAMETER_TAG.search(self._buffer, scan)) is not None:
                if tag["name"]:
                    depth += 1  # a value may talk about calls
                elif depth:
                    depth -= 1
                else:
                    ends = self._ends_value(tag.end(), given, wrapped=wrapped)
                    if ends:
                        return self._take_value(tag.start(), tag.end())
                    if ends is None:
                        scan = tag.start()
                        break
                scan = tag.end()
            else:
                scan = _partial_tag(self._buffer, scan)
            if self._final:
                # The end tag may be the last that came before the cut.
                if self._cut and tag is not None:
                    return self._take_value(tag.start(), len(self._buffer))
                if self._cut:
                    self._take(len(self._buffer))
                    return None
                return self._loose_value(given)
            yield None

    def _ends_value(self, at: int, given: set[str], *, wrapped: bool) -> bool | None:
        """Whether a value ends before `at`, judged by what follows. None: that has not come yet."""
        match = _AFTER_VALUE.match(self._buffer, at)
        if match is not None:
            if match["name"]:
                return _clean(match["name"]) not in given
            if match["closed"] or not wrapped:
                return True
            rest = self._buffer[match.end() :].lstrip(_SPACE)
            return None if _becomes(rest, _END_CALL) or _becomes(rest, _FUNCTION) else False
        rest = self._buffer[at : at + 2 * _MAX_NAME].lstrip(_SPACE)
        undecided = _becomes(rest, _END_FUNCTION) or _becomes_named(rest, _PARAMETER)
        return None if undecided else False

    def _loose_value(self, given: set[str]) -> str:
        """The value at the end of an answer that lacks closing tags."""
        for match in _LOOSE_END.finditer(self._buffer):
            if match["tag"]:
                closes = self._buffer[match.end() :].lstrip(_SPACE).startswith(_END_CALL)
                ends = closes or self._ends_value(match.end(), given, wrapped=False) is not False
            else:
                ends = not match["name"] or _clean(match["name"]) not in given
            if ends:
                return self._take_value(match.start(), match.end())
        end = self._buffer.find(_END_PARAMETER)
        if end < 0:
            return self._take_value(len(self._buffer), len(self._buffer))
        return self._take_value(end, end + len(_END_PARAMETER))

    def _take_value(self, end: int, after: int) -> str:
        """The line breaks next to the tags are no part of a value."""
        value = self._take(after)[:end]
        value = value.removeprefix("\r\n") if value.startswith("\r") else value.removeprefix("\n")
        return value.removesuffix("\r\n") if value.endswith("\r\n") else value.removesuffix("\n")


def is_parameter_name(name: str) -> bool:
    """Whether a parameter in XML form can have this name."""
    return re.fullmatch(_NAME, f"{name}>") is not None and _clean(name) == name


def _clean(name: str) -> str:
    return name.strip(_SPACE + "\"'")


def _becomes(text: str, whole: str) -> bool:
    """Whether `text` is a beginning of `whole` that lacks something."""
    return len(text) < len(whole) and whole.startswith(text)


def _becomes_named(text: str, tag: str) -> bool:
    """Whether `text` can grow into `tag` with a name and a closing bracket."""
    if _becomes(text, tag):
        return True
    return text.startswith(tag) and len(text) <= len(tag) + _MAX_NAME and not re.search(r"[>\n]", text)


def _becomes_head(text: str) -> bool:
    """Whether `text` can grow into the beginning of a call."""
    if text.startswith(_CALL):
        text = text[len(_CALL) :].lstrip(_SPACE)
    return _becomes_named(text, _FUNCTION)


def _becomes_tag(text: str) -> bool:
    """Whether `text` can grow into a tag that means something inside a function."""
    tags = (_END_PARAMETER, _END_FUNCTION, _END_CALL, _CALL, _FUNCTION)
    return _becomes_named(text, _PARAMETER) or any(_becomes(text, tag) for tag in tags)


def _partial(text: str, tags: Sequence[str]) -> int:
    """Length of the longest end of `text` that begins one of the tags."""
    longest = min(len(text), max(map(len, tags)) - 1)
    return next((n for n in range(longest, 0, -1) if any(tag.startswith(text[-n:]) for tag in tags)), 0)


def _partial_tag(text: str, scan: int) -> int:
    """Where a tag around a parameter may begin at the end of `text`; the length of `text` if none does."""
    at = text.rfind("<", max(scan, len(text) - len(_PARAMETER) - _MAX_NAME))
    unfinished = at >= 0 and (_becomes(text[at:], _END_PARAMETER) or _becomes_named(text[at:], _PARAMETER))
    return at if unfinished else len(text)
