"""Answers that must follow a grammar: JSON, JSON of a schema, or function calls. Needs the extra `grammar`.

llguidance says which tokens may come next; the core's sampler chooses among them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from swiftlet import _core
from swiftlet.answer_parser import AnswerParser
from swiftlet.constraints import CallConstraint, GrammarConstraint, first_line
from swiftlet.json_values import json_types
from swiftlet.tokenizer import Tokenizer
from swiftlet.tool_calls import is_parameter_name

import llguidance  # isort: skip  (last: if it is missing, constraints.py says what to do)

CallForm = Literal["xml", "json"]

BYTES_PER_TOKEN = 420
"""Memory that a GrammarCompiler takes for each token of the vocabulary, as measured with 248,320 of them."""

# Enough for deep indentation, and an end to the blank lines that a model may fall into.
_WHITESPACE = r"[ \n\r\t]{0,40}"
_JSON_OPTIONS = {"whitespace_pattern": _WHITESPACE}
_LINE = "\n"
_BLANKS = r"/[ \n]{0,4}/"

# Terminals of answers in which only some calls are bound. What the parser of calls takes for a bound one, in whatever
# form, is neither TEXT nor, behind a <tool_call> that is a token, INSIDE.
_FREE_TEXT = r"""
ANY: /(?s:.*)/
SPACE: /[ \t\r\n]*/
QUOTES: /[ \t\r"']*/
NAME: SPACE "{" SPACE "\"name\"" SPACE ":" SPACE
ARGUMENTS: SPACE "," SPACE /"(arguments|parameters)"/ SPACE ":" SPACE
TEXT: ANY & ~(("<tool_call>" SPACE)? FUNCTION ANY) & ~("<tool_call>" SPACE "{" ANY) & ~(JSON "{" ANY)
INSIDE: ANY & ~(SPACE FUNCTION ANY) & ~(SPACE "{" ANY)
"""


class GrammarCompiler:
    """Makes constraints for one model."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, end_ids: Sequence[int]) -> None:
        """`vocab_size`: the model's, in logits. `end_ids`: the tokens that end an answer."""
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        # llguidance could read the tokenizer's JSON by itself, but takes seconds for it in which no other thread runs.
        # So it gets the tokens as bytes, and makes its tables (slices) in a second step: others run in between.
        vocabulary = llguidance.TokenizerWrapper(_Vocabulary(tokenizer, vocab_size, end_ids))
        tokens = llguidance.LLTokenizer(vocabulary, n_vocab=vocab_size, eos_token=list(end_ids), slices=[])
        self._tokens = tokens.with_slices(llguidance.LLTokenizer.general_slices())

    def json_schema(self, schema: Mapping[str, Any] | None = None, *, in_thoughts: bool = False) -> GrammarConstraint:
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
    ) -> GrammarConstraint:
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

    def strict_calls(
        self, tools: Sequence[Mapping[str, Any]], strict: Sequence[str], *, form: CallForm, begun: bool | None
    ) -> CallConstraint:
        """Any answer, in which calls of the tools named in `strict` have arguments of their schemas.

        `form`: how the model writes calls; it cannot write those of strict tools in the other one. `begun`: as
        AnswerParser takes it.
        """
        functions = [tool.get("function", tool) for tool in tools]
        bound = [function for function in functions if function["name"] in strict]
        free = [function["name"] for function in functions if function["name"] not in strict]
        matcher = self._matcher(self._strict_grammar(bound, free, form))

        def begin(text: str) -> GrammarConstraint | None:
            # No token leads from here past the function's name, and masks behind each "<" would take milliseconds.
            if "<function=".startswith(text):
                return None
            own = matcher.deep_copy()
            if not own.consume_tokens(self._tokenizer.encode(text)):
                return None
            return GrammarConstraint(own, self._vocab_size, self._tokenizer)

        return CallConstraint(begin, AnswerParser(begun=begun, tools=tools), self._tokenizer)

    def _strict_grammar(self, bound: Sequence[Mapping[str, Any]], free: Sequence[str], form: CallForm) -> str:
        """What may become a call, from its first character on: a call of one of the `bound`, or any other text."""
        added = self._tokenizer.added_tokens
        open_id = added.get("<tool_call>")
        # No terminal holds a token with a text of its own: it ends what is undecided, or stands in a free call.
        ids = ",".join(str(id) for id in sorted(added.values()) if id not in self._tokenizer.special_ids)
        texts = ["TEXT"] if open_id is None else ["TEXT", f"<[{open_id}]> INSIDE"]
        rules = [
            "FUNCTION: " + " | ".join(f"FUNCTION_{i}" for i in range(len(bound))),
            f"JSON: NAME ({_strings([function['name'] for function in bound])}) ARGUMENTS",
            "call: " + " | ".join(f"call_{i}" for i in range(len(bound))),
            "start: call | other",
        ]
        if free:
            rules.append(f"OTHER_CALL: NAME ({_strings(free)}) ANY")
            calls = ["OTHER_CALL"]
            if form == "json":
                rules.append('SPELLED_OTHER_CALL: "<tool_call>" OTHER_CALL')
                calls += ["SPELLED_OTHER_CALL"] + ([] if open_id is None else [f"<[{open_id}]> OTHER_CALL"])
            texts += [f"{call} (<[{ids}]> ANY)*" for call in calls] if ids else calls
        rules.append(f"text: {' | '.join(texts)}")
        rules.append(f"other: text <[{ids}]>?" if ids else "other: text")
        for i, function in enumerate(bound):
            name, parameters = function["name"], function.get("parameters") or {}
            rules.append(f'FUNCTION_{i}: "<function=" QUOTES {_text(name)} QUOTES ">"')
            if form == "xml":
                places, more = _xml_parameters(i, name, parameters)
                head, rest = f"FUNCTION_{i}", f"{_text(_LINE)} {places} {_text('</function>')}"
            else:
                more = [f"JSON_{i}: NAME {_strings([name])} ARGUMENTS", f"arguments_{i}: {_arguments(parameters)}"]
                head, rest = f"JSON_{i}", f'arguments_{i} SPACE "}}"'
            heads = [f"SPELLED_{i}"] if open_id is None else [f"SPELLED_{i}", f"<[{open_id}]> WRAPPED_{i}"]
            rules += more
            rules.append(f"WRAPPED_{i}: SPACE {head}")
            rules.append(f'SPELLED_{i}: "<tool_call>" SPACE {head}')
            wrapped = f"({' | '.join(heads)}) {rest} {_BLANKS} {self._tag('</tool_call>')}"
            rules.append(f"call_{i}: {wrapped} | {head} {rest}")
        return _FREE_TEXT + "\n".join(rules) + "\n"

    def _json_call(self, i: int, name: str, parameters: Mapping[str, Any]) -> list[str]:
        begin = f'\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '
        call = (
            f"{self._tag('<tool_call>')} {_text(begin)} arguments_{i} {_text('}' + _LINE)} {self._tag('</tool_call>')}"
        )
        return [f"call_{i}: {call}", f"arguments_{i}: {_arguments(parameters)}"]

    def _xml_call(self, i: int, name: str, parameters: Mapping[str, Any]) -> list[str]:
        places, rules = _xml_parameters(i, name, parameters)
        head = f"{self._tag('<tool_call>')} {_text(f'{_LINE}<function={name}>{_LINE}')}"
        tail = f"{_text('</function>' + _LINE)} {self._tag('</tool_call>')}"
        return [f"call_{i}: {head} {places} {tail}", *rules]

    def _tag(self, text: str) -> str:
        """A tag is a token of its own in most vocabularies."""
        id = self._tokenizer.added_tokens.get(text)
        return _text(text) if id is None else f"<[{id}]>"

    def _constraint(self, lark: str, in_thoughts: bool) -> GrammarConstraint:
        return GrammarConstraint(self._matcher(lark), self._vocab_size, self._tokenizer, in_thoughts=in_thoughts)

    def _matcher(self, lark: str) -> "llguidance.LLMatcher":
        matcher = llguidance.LLMatcher(self._tokens, llguidance.LLMatcher.grammar_from_lark(lark), log_level=0)
        if matcher.is_error():
            raise _core.InputError(f"the schema cannot be enforced: {first_line(matcher.get_error())}")
        return matcher


class _Vocabulary:
    """A tokenizer in the form that llguidance takes."""

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, end_ids: Sequence[int]) -> None:
        self._encode = tokenizer.encode
        tokens = tokenizer.all_token_bytes()
        self.tokens = tokens + [b""] * (vocab_size - len(tokens))  # logits without a token
        self.special_token_ids = sorted(tokenizer.added_tokens.values())
        self.eos_token_id = end_ids[0]
        self.bos_token_id = None

    def __call__(self, text: bytes) -> list[int]:
        return self._encode(text.decode())


def _xml_parameters(i: int, name: str, parameters: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The parameters of a function in XML form, in the order of its schema, and the rules that they need."""
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
    return " ".join(places), rules


def _arguments(parameters: Mapping[str, Any]) -> str:
    return _json({"type": "object", **parameters})


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


def _strings(names: Sequence[str]) -> str:
    """One of these JSON strings."""
    return " | ".join(_text(json.dumps(name, ensure_ascii=False)) for name in names)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
