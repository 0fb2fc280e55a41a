"""JSON as models write it: where a value ends while it is still coming, and values of the types that a schema wants."""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "object": dict,
    "array": list,
}
_STRUCTURE = re.compile(r'["{}\[\]]|\\.?', re.DOTALL)
_MAX_DEPTH = 16  # of references and alternatives, which may go round in circles


class JsonScanner:
    """Finds the end of a JSON object or list in text that comes in pieces, at a cost that does not grow with it."""

    def __init__(self, start: int) -> None:
        """`start`: index of the first brace or bracket."""
        self._at = start
        self._depth = 0
        self._in_string = False

    def shift(self, count: int) -> None:
        """The first `count` characters of the text were cut off."""
        self._at -= count

    def end(self, text: str) -> int | None:
        """Index after the value in the text so far; None: the end is not there yet."""
        for match in _STRUCTURE.finditer(text, self._at):
            mark = match[0]
            if mark == "\\":
                self._at = match.start()  # what it escapes is still to come
                return None
            if mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string and mark in "{[":
                self._depth += 1
            elif not self._in_string and mark in "}]":
                self._depth -= 1
                if not self._depth:
                    self._at = match.end()
                    return self._at
        self._at = len(text)
        return None


def parse_object(text: str) -> dict[str, Any] | None:
    """The object that a text holds, also with line breaks inside strings or as Python writes it; else None."""
    value = _parse(text)
    return value if isinstance(value, dict) else None


def is_json(text: str) -> bool:
    """Whether a text is a JSON value, read as generously as everywhere here."""
    return _parse(text) is not None


def complete_members(text: str) -> dict[str, Any]:
    """The members that are complete in a JSON object which was cut off somewhere."""
    decoder = json.JSONDecoder(strict=False)
    members: dict[str, Any] = {}
    at = _skip(text, 0, "{")
    while at is not None:
        try:
            name, at = decoder.raw_decode(text, _after_space(text, at))
            if not isinstance(name, str) or (colon := _skip(text, at, ":")) is None:
                break
            value, at = decoder.raw_decode(text, _after_space(text, colon))
        except (ValueError, RecursionError):
            break
        # A number at the very end may have lost digits.
        if _after_space(text, at) == len(text):
            break
        members[name] = value
        at = _skip(text, at, ",")
    return members


def dump(value: Any) -> str:
    """JSON text. Half surrogate pairs, which a model can write as escapes, stay escapes."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def typed_value(text: str, schema: Any, root: Any) -> Any:
    """What a parameter's text stands for, where the schema says its type. Text that fits no type stays text.

    `root` is the schema that "$ref" refers to. Without a schema it is text.
    """
    types = json_types(schema, root)
    if types == {"string"} or not isinstance(schema, Mapping):
        return text
    value = _parse(text.strip())
    if value is None and text.strip() not in ("null", "None"):
        return text
    if types is None:
        return value
    return _as_type(value, types, text)


def fit(value: Any, schema: Any, root: Any) -> Any:
    """A JSON value, with the type that the schema wants if it can be read so: "5" becomes 5 where a number belongs."""
    types = json_types(schema, root)
    if types is None or any(_is(value, name) for name in types):
        return value
    if isinstance(value, str):
        return typed_value(value, schema, root)
    text = json.dumps(value, ensure_ascii=False)
    return _as_type(value, types, text if "string" in types else value)


def json_types(schema: Any, root: Any, depth: int = 0) -> set[str] | None:
    """Names of the JSON types that a schema allows; None if it does not say."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return None
    if isinstance(schema.get("$ref"), str):
        return json_types(_lookup(root, schema["$ref"]), root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {name for name in kind if isinstance(name, str)}
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list):
        return {name for name in _JSON_TYPES for value in values if _is(value, name)}
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(alternatives, list):
        return None
    types: set[str] = set()
    for alternative in alternatives:
        allowed = json_types(alternative, root, depth + 1)
        if allowed is None:
            return None
        types |= allowed
    return types


def may_be_structured(schema: Any, root: Any) -> bool:
    """Whether a value of this schema can be an object or a list; not where nothing is known about it."""
    types = json_types(schema, root)
    return isinstance(schema, Mapping) if types is None else bool(types & {"object", "array"})


def property_schema(schema: Any, name: str) -> Any:
    """Schema of one property; None if there is nothing about it."""
    if not isinstance(schema, Mapping):
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        return properties[name]
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, Mapping) else None


def _as_type(value: Any, types: set[str], otherwise: Any) -> Any:
    if any(_is(value, name) for name in types if name != "string"):
        return value
    if "integer" in types and isinstance(value, float) and value.is_integer():
        return int(value)
    return otherwise


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _JSON_TYPES.get(name, ()))


def _lookup(root: Any, reference: str) -> Any:
    """What a reference within the document points to, like "#/$defs/place"."""
    if not reference.startswith("#"):
        return None
    for part in reference[1:].strip("/").split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        root = root.get(key) if isinstance(root, Mapping) else None
    return root


def _parse(text: str) -> Any:
    """JSON, or what Python writes for the same thing (True, None, single quotes); None if it is neither."""
    try:
        return json.loads(text, strict=False, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        pass
    if not text or text[0] not in "{[TFN'\"":
        return None
    try:
        value = ast.literal_eval(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")  # NaN and infinities, which json.loads would take


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _skip(text: str, at: int, char: str) -> int | None:
    """Index after `char`, which may have space before it; None if something else stands there."""
    at = _after_space(text, at)
    return at + 1 if text[at : at + 1] == char else None
