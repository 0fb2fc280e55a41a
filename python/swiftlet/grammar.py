"""Answers that must follow a grammar: JSON, JSON of a schema, or a function call. Needs the extra `grammar`.

llguidance says which tokens may come next; the core's sampler chooses among them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from swiftlet import _core
from swiftlet.json_values import json_types
from swiftlet.thinking import END
from swiftlet.tokenizer import Tokenizer
from swiftlet.tool_calls import is_parameter_name

try:
    import llguidance
    import llguidance.numpy
except ImportError as error:
    raise _core.InputError("grammars need llguidance: pip install 'pyswiftlet[grammar]'") from error

CallForm = Literal["xml", "json"]

BYTES_PER_TOKEN = 560
"""Memory that a GrammarCompiler takes for each token of the vocabulary, as measured with 248,320 of them."""

# Enough for deep indentation, and an end to the blank lines that a model may fall into.
_WHITESPACE = r"[ \n\r\t]{0,40}"
_JSON_OPTIONS = {"whitespace_pattern": _WHITESPACE}
_LINE = "\n"
_BLANKS = r"/[ \n]{0,4}/"


class Constraint:
    """Which tokens may follow, during one answer."""

    def __init__(
        self, matcher: "llguidance.LLMatcher", vocab_size: int, tokenizer: Tokenizer, in_thoughts: bool
    ) -> None:
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._tail: bytes | None = b"" if in_thoughts else None  # the end of thoughts that are going on
        self._mask = llguidance.numpy.allocate_token_bitmask(1, vocab_size)

    def mask(self) -> NDArray[np.uint32] | None:
        """A bit for each token that may come next, as swiftlet._core.Generation.next takes it; None: any may."""
        if self._tail is not None:
            return None
        llguidance.numpy.fill_next_token_bitmask(self._matcher, self._mask)
        self._check()
        mask: NDArray[np.uint32] = self._mask[0].view(np.uint32)
        return mask

    def accept(self, id: int) -> None:
        """The token that was chosen."""
        if self._tail is None:
            self._matcher.consume_token(id)
            self._check()
            return
        self._tail = (self._tail + self._tokenizer.token_bytes(id))[-4 * len(END) :]
        if END.encode() in self._tail:
            self._tail = None

    def _check(self) -> None:
        if self._matcher.is_error():
            raise _core.InputError(f"the grammar cannot go on: {_first_line(self._matcher.get_error())}")


class GrammarCompiler:
    """Makes constraints for one model."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, end_ids: Sequence[int]) -> None:
        """`vocab_size`: the model's, in logits. `end_ids`: the tokens that end an answer."""
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._tokens = llguidance.LLTokenizer(tokenizer.to_json(), n_vocab=vocab_size, eos_token=list(end_ids))

    def json_schema(self, schema: Mapping[str, Any] | None = None, *, in_thoughts: bool = False) -> Constraint:
        """An answer that is JSON of a schema (None: any object).

        `in_thoughts`: the answer begins inside the thoughts, and the grammar applies after </think>. Raises InputError
        for a schema that llguidance does not support, with its words.
        """
        return self._constraint(f"start: {_BLANKS} value\nvalue: {_json(schema or {'type': 'object'})}\n", in_thoughts)

    def function_call(
        self,
        tools: Sequence[Mapping[str, Any]],
        *,
        form: CallForm,
        several: bool = True,
        or_schema: Mapping[str, Any] | None = None,
        in_thoughts: bool = False,
    ) -> Constraint:
        """An answer that calls one of the tools (as OpenAI's API describes them), or `several` times one of them.

        `form`: how the model writes calls, see tool_calls. Parameters come in the order of the schema. `or_schema`: the
        answer may instead be JSON of this schema.
        """
        rules = [f"start: {_BLANKS} {'calls' if or_schema is None else '(calls | value)'}"]
        rules.append(f"calls: call{f' ({_BLANKS} call)*' if several else ''}")
        if or_schema is not None:
            rules.append(f"value: {_json(or_schema)}")
        functions = [tool.get("function", tool) for tool in tools]
        rules.append("call: " + " | ".join(f"call_{i}" for i in range(len(functions))))
        for i, function in enumerate(functions):
            write = self._xml_call if form == "xml" else self._json_call
            rules += write(i, function["name"], function.get("parameters") or {})
        return self._constraint("\n".join(rules) + "\n", in_thoughts)

    def _json_call(self, i: int, name: str, parameters: Mapping[str, Any]) -> list[str]:
        begin = f'\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '
        arguments = _json({"type": "object", **parameters})
        call = (
            f"{self._tag('<tool_call>')} {_text(begin)} arguments_{i} {_text('}' + _LINE)} {self._tag('</tool_call>')}"
        )
        return [f"call_{i}: {call}", f"arguments_{i}: {arguments}"]

    def _xml_call(self, i: int, name: str, parameters: Mapping[str, Any]) -> list[str]:
        properties = parameters.get("properties") or {}
        required = parameters.get("required") or []
        if not isinstance(properties, Mapping) or not isinstance(required, list):
            raise _core.InputError(f'"properties" and "required" of {name!r} are no JSON schema: an object and a list')
        definitions = {key: parameters[key] for key in ("$defs", "definitions") if key in parameters}
        rules, places = [], []
        for j, (key, schema) in enumerate(properties.items()):
            rule = f"parameter_{i}_{j}"
            places.append(rule if key in required else f"{rule}?")
            rules += _parameter(rule, key, schema, definitions)
        head = f"{self._tag('<tool_call>')} {_text(f'{_LINE}<function={name}>{_LINE}')}"
        tail = f"{_text('</function>' + _LINE)} {self._tag('</tool_call>')}"
        return [f"call_{i}: {head} {' '.join(places)} {tail}", *rules]

    def _tag(self, text: str) -> str:
        """A tag is a token of its own in most vocabularies."""
        id = self._tokenizer.added_tokens.get(text)
        return _text(text) if id is None else f"<[{id}]>"

    def _constraint(self, lark: str, in_thoughts: bool) -> Constraint:
        matcher = llguidance.LLMatcher(self._tokens, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
        if matcher.is_error():
            raise _core.InputError(f"the schema cannot be enforced: {_first_line(matcher.get_error())}")
        return Constraint(matcher, self._vocab_size, self._tokenizer, in_thoughts)


def _parameter(rule: str, key: str, schema: Any, definitions: Mapping[str, Any]) -> list[str]:
    """A parameter in XML form. Text stands there as it is, without tags of parameters, all else as JSON."""
    if not is_parameter_name(key):
        raise _core.InputError(f"the schema cannot be enforced: {key!r} cannot be written as a parameter's name")
    schema = schema if isinstance(schema, Mapping) else {}
    head, end = _text(f"<parameter={key}>\n"), "\n</parameter>\n"
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        written = [value if isinstance(value, str) else json.dumps(value) for value in values]
        return [f"{rule}: {head} ({' | '.join(map(_text, written))}) {_text(end)}"]
    types = json_types(schema, definitions)
    if types is None or "string" in types:
        text = r"/(?s:.*)<\/parameter>/ & ~/(?s:.*)<parameter=(?s:.*)/"
        return [f'{rule}: {head} {rule}_text "\\n"', f"{rule}_text[lazy]: {text}"]
    return [f"{rule}: {head} {rule}_value {_text(end)}", f"{rule}_value: {_json({**schema, **definitions})}"]


def _json(schema: Mapping[str, Any]) -> str:
    return f"%json {json.dumps({**schema, 'x-guidance': _JSON_OPTIONS})}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _first_line(message: str) -> str:
    return message.strip().split("\n", 1)[0]
