"""Answers under a grammar: the demo model says what it likes, and it fits all the same."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swiftlet
from swiftlet import InputError
from swiftlet.grammar import GrammarCompiler
from swiftlet.tool_calls import CallArguments, CallBegin, Text, ToolCallParser


@pytest.fixture(scope="module")
def engine():
    with swiftlet.Engine("demo", memory="1GB", context=2048, threads=2) as engine:
        yield engine


@pytest.fixture(scope="module")
def compiler(engine):
    return GrammarCompiler(engine.tokenizer, engine.config["vocab_size"], engine.config["eos_token_ids"])


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
TOOLS = [
    {"name": "now", "parameters": {}},
    {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "unit": {"type": "string", "enum": ["C", "F"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "where": {"$ref": "#/$defs/where"},
                "note": {"type": "boolean"},
            },
            "required": ["unit", "days", "where"],
            "$defs": {"where": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 2}},
        },
    },
]


def ask(engine, constraint, seed, **options):
    # Tokens of a wild temperature: nothing but the grammar keeps this answer in shape.
    return engine.complete(
        "Tell me about Tom.",
        constraint=constraint,
        seed=seed,
        temperature=3.0,
        max_tokens=300,
        enable_thinking=False,
        **options,
    )


@pytest.mark.parametrize("seed", range(3))
def test_json_of_a_schema(engine, compiler, seed):
    answer = ask(engine, compiler.json_schema(SCHEMA), seed)
    assert answer.finish_reason == "stop"
    value = json.loads(answer.text)
    assert value.keys() == {"name", "age", "tags"}
    assert len(value["name"]) <= 12 and 0 <= value["age"] <= 120
    assert len(value["tags"]) <= 3 and set(value["tags"]) <= {"a", "b"}


def test_greedy_answers_too(engine, compiler):
    answer = engine.complete("Tom is 7.", constraint=compiler.json_schema(SCHEMA), temperature=0, max_tokens=300)
    assert json.loads(answer.text)["name"] is not None


@pytest.mark.parametrize("form", ["xml", "json"])
@pytest.mark.parametrize("seed", range(2))
def test_a_function_is_called(engine, compiler, form, seed):
    answer = ask(engine, compiler.function_call(TOOLS[1:], form=form, several=False), seed)
    parser = ToolCallParser(TOOLS)
    events = parser.push(answer.text) + parser.finish(cut=answer.finish_reason == "length")
    assert not any(isinstance(event, Text) for event in events)
    assert [event.name for event in events if isinstance(event, CallBegin)] == ["weather"]
    arguments = json.loads("".join(event.text for event in events if isinstance(event, CallArguments)))
    assert arguments["unit"] in "CF" and 1 <= arguments["days"] <= 14
    assert 1 <= len(arguments["where"]) <= 2 and isinstance(arguments.get("note", True), bool)


def accepts(compiler, constraint, text, engine):
    """Whether the text is a whole answer: every token allowed, and then the end."""
    for id in [*engine.tokenizer.encode(text), engine.config["eos_token_ids"][0]]:
        mask = constraint.mask()
        if mask is not None and not mask[id // 32] >> (id % 32) & 1:
            return False
        constraint.accept(id)
    return True


NOW = "<tool_call>\n<function=now>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "several", "fits"),
    [
        (NOW, False, True),
        (f"{NOW}\n{NOW}", True, True),
        (f"{NOW}\n{NOW}", False, False),
        (NOW.replace("now", "other"), True, False),
        ("It is late.", True, False),
    ],
)
def test_what_a_call_may_look_like(compiler, engine, text, several, fits):
    assert accepts(compiler, compiler.function_call(TOOLS, form="xml", several=several), text, engine) == fits


def test_text_parameters_are_free(compiler, engine):
    tool = {"name": "write", "parameters": {"properties": {"text": {"type": "string"}, "n": {"type": "number"}}}}
    call = "<tool_call>\n<function=write>\n<parameter=text>\nif a < b {\n\n}\n</parameter>\n</function>\n</tool_call>"
    assert accepts(compiler, compiler.function_call([tool], form="xml"), call, engine)


FREE = {
    "name": "f",
    "parameters": {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
}


@pytest.mark.parametrize("value", ["", "\n", "x", "a\n</parameter", "</function>\n</tool"])
def test_text_ends_where_the_parser_ends_it(compiler, engine, value):
    call = f"<tool_call>\n<function=f>\n<parameter=a>\n{value}</parameter>\n"
    rest = "<parameter=b>\n5\n</parameter>\n</function>\n</tool_call>"
    assert accepts(compiler, compiler.function_call([FREE], form="xml"), call + rest, engine)
    # What the parser would take for another parameter, or for the end of the call, is no text.
    for tail in ("<parameter=c>\n1\n</parameter>\n", "</function>\n</tool_call>\n"):
        assert not accepts(compiler, compiler.function_call([FREE], form="xml"), call + tail + rest, engine)
    opened = call.replace("</parameter>", "\n<parameter=b>\n</parameter>")
    assert not accepts(compiler, compiler.function_call([FREE], form="xml"), opened + rest, engine)


@pytest.mark.parametrize(("value", "fits"), [("x", True), ("1", True), ("null", True), ("2", False), ("y", False)])
def test_values_of_several_types(compiler, engine, value, fits):
    for schema in ({"enum": ["x", 1, None]}, {"const": value if fits else "x"}):
        tool = {"name": "f", "parameters": {"properties": {"a": schema}, "required": ["a"]}}
        call = f"<tool_call>\n<function=f>\n<parameter=a>\n{value}\n</parameter>\n</function>\n</tool_call>"
        assert accepts(compiler, compiler.function_call([tool], form="xml"), call, engine) == fits


@pytest.mark.parametrize(
    "parameters",
    [{"properties": [1]}, {"properties": {"a": {}}, "required": 5}, {"properties": {"a>b": {}}}],
)
def test_parameters_that_are_no_schema(compiler, parameters):
    with pytest.raises(InputError, match=r"no JSON schema|cannot be written"):
        compiler.function_call([{"name": "f", "parameters": parameters}], form="xml")


def test_the_grammar_begins_after_the_thoughts(compiler, engine):
    constraint = compiler.json_schema(SCHEMA, in_thoughts=True)
    assert constraint.mask() is None
    assert accepts(compiler, constraint, 'Hm, {}.\n</think>\n\n{"name": "Tom", "age": 7, "tags": []}', engine)
    assert not accepts(compiler, compiler.json_schema(SCHEMA, in_thoughts=True), "Hm.\n</think>\n\nTom", engine)


# Strict tools: calls are bound, everything else is free

FORECAST = {
    "name": "forecast",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "maximum": 9}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
MIXED = [FORECAST, {"name": "now", "parameters": {"properties": {"zone": {"type": "string"}}}}]


def call(form, name, **arguments):
    if form == "json":
        return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


def strict(compiler, form, begun=False):
    return compiler.strict_calls(MIXED, ["forecast"], form=form, begun=begun)


@pytest.mark.parametrize("form", ["xml", "json"])
def test_only_calls_of_strict_tools_are_bound(compiler, engine, form):
    good, bad = call(form, "forecast", city="Oslo", days=3), call(form, "forecast", city="Paris", days=3)
    for text, fits in [
        (good, True),
        (f"Let me see.\n\n{good}\n{good}", True),
        (bad, False),
        (f"Let me see.\n{good}\n{bad}", False),
        (good.replace("3", "30"), False),
        (good.replace("days", "day"), False),
        (good.replace("city", '"city"'), False),
        (call(form, "now", zone=5, more="<b>"), True),
        (f"{call(form, 'now')}\n{bad}", False),
        # Without its wrapper a call is one all the same.
        (good.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"), True),
        (bad.removeprefix("<tool_call>\n"), False),
    ]:
        assert accepts(compiler, strict(compiler, form), text, engine) == fits, text


@pytest.mark.parametrize("form", ["xml", "json"])
@pytest.mark.parametrize("tag", ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|fim_prefix|>"])
def test_free_calls_may_hold_any_token(compiler, engine, form, tag):
    free, bad = call(form, "now", zone=f"see {tag} and {tag} b"), call(form, "forecast", city="Paris", days=3)
    bare = json.dumps({"name": "now", "arguments": {"zone": f"see {tag} and {tag} b"}})
    good = call(form, "forecast", city="Oslo", days=3)
    for text in (free, bare):
        assert accepts(compiler, strict(compiler, form), text, engine)
        assert accepts(compiler, strict(compiler, form), f"{text}\n{good}", engine)
        assert not accepts(compiler, strict(compiler, form), f"{text}\n{bad}", engine)


# Other kinds of space, a second name, and what is no JSON.
TRICKS = [
    *(f"<function={name}>\n<parameter=city>\nParis\n</parameter>\n</function>"
      for name in ("\u00a0forecast", "\x0bforecast", "forecast\u2003", "'\u00a0forecast'")),
    *(f'{space}{{{space}"name":{space}"forecast", "arguments": {{"city": "Paris"}}}}' for space in "\x0b\x0c\u00a0"),
    '{\x0c"name": "forecast", "arguments": {"city": "Paris"}}',
    '{"name": "now", "name": "forecast", "arguments": {"city": "Paris"}}',
    '{"name": "now", "arguments": {"city": "Paris"}, "name": "forecast"}',
    "{\"name\": \"now\", 'name': 'forecast', 'arguments': {'city': 'Paris'}}",
    '{"name": "now", no <function=forecast>\n<parameter=city>\nParis\n</parameter>\n</function>}',
    '{"name": "now", no <tool_call>{"name": "forecast", "arguments": {"city": "Paris"}}</tool_call>}',
]  # fmt: skip


@pytest.mark.parametrize("form", ["xml", "json"])
@pytest.mark.parametrize("wrapper", ["", "<tool_call>", "<tool_call>\n", "<tool_call>\x0b"])
@pytest.mark.parametrize("trick", TRICKS)
def test_what_is_let_through_is_no_call_of_a_strict_tool(compiler, engine, form, wrapper, trick):
    text = wrapper + trick + ("\n</tool_call>" if wrapper else "")
    parser = ToolCallParser(MIXED)
    events = parser.push(text) + parser.finish(cut=False)
    called = any(isinstance(event, CallBegin) and event.name == "forecast" for event in events)
    assert not (called and accepts(compiler, strict(compiler, form), text, engine))


@pytest.mark.parametrize("form", ["xml", "json"])
@pytest.mark.parametrize(
    "text",
    [
        "It rains. a < b, <b>bold</b>, {braces}, é<é",
        "A call begins with <tool_call> and ends with </tool_call>; <function=name> names it.",
        "<tool_call></tool_call>",
        "<function=forecas",
        '{"name": "Ann", "arguments": [1]}',
        '{"name": "forecast", "in": "Oslo"}',
        "Hm",
        "",
    ],
)
def test_plain_answers_are_not_restricted(compiler, engine, form, text):
    assert accepts(compiler, strict(compiler, form), text, engine)


def test_nothing_is_masked_where_nothing_looks_like_a_call(compiler, engine):
    constraint = strict(compiler, "xml")
    masked = []
    for id in engine.tokenizer.encode("A long answer, in which 2 > 1.\n" * 9 + "a <b> c" + "\nThe end." * 9):
        masked.append(constraint.mask() is not None)
        constraint.accept(id)
    assert not any(masked)


@pytest.mark.parametrize("begun", [True, False])
def test_thoughts_are_free_of_schemas_too(compiler, engine, begun):
    bad = call("xml", "forecast", city="Paris", days=3)
    thoughts = ("" if begun else "<think>\n") + f"I could say {bad}.\n</think>\n\n"
    good = call("xml", "forecast", city="Rome", days=3)
    assert accepts(compiler, strict(compiler, "xml", begun), thoughts + good, engine)
    assert not accepts(compiler, strict(compiler, "xml", begun), thoughts + bad, engine)


@pytest.mark.parametrize("wish", ["Paris", "Rome"])
def test_the_model_keeps_to_a_strict_schema(engine, compiler, wish):
    """The demo model calls of its own accord, with the city it is asked about."""
    city = {"type": "string", "enum": ["Rome", "Oslo"]}
    tool = {"name": "get_weather", "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": city}, "required": ["city"]}}  # fmt: skip
    tools = [{"type": "function", "function": tool}]
    constraint = compiler.strict_calls(tools, ["get_weather"], form="xml", begun=False)
    question = f"What is the weather in {wish}?"
    answer = engine.complete(question, tools=tools, constraint=constraint, temperature=0, enable_thinking=False)
    assert answer.finish_reason == "stop" and "<function=get_weather>" in answer.text
    assert re.search(r"<parameter=city>\n(Rome|Oslo)\n</parameter>", answer.text)
    plain = engine.complete("What is the capital of Italy?", temperature=0, tools=tools, enable_thinking=False)
    constraint = compiler.strict_calls(tools, ["get_weather"], form="xml", begun=False)
    assert (
        plain.text
        == engine.complete(
            "What is the capital of Italy?", temperature=0, tools=tools, enable_thinking=False, constraint=constraint
        ).text
    )


PIECES = [
    "<tool_call>", "</tool_call>", "<function=forecast>", "<function=now>", "</function>", "<parameter=city>",
    "<parameter=days>", "</parameter>", "\n", " ", "5", "Oslo", "{", "}", '"', "é", "<", "<func", "</", "=", "forecast",
    call("xml", "forecast", city="Oslo", days=3), call("xml", "now"), call("json", "forecast", city="Oslo", days=3),
    '{"name": "forecast", "arguments": {', "<function='forecast'>", '{"name": "now", "arguments": {', "</think>",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=10).map("".join), st.sampled_from(["xml", "json"]))
def test_whatever_is_let_through_has_strict_calls_of_the_schema(compiler, engine, text, form):
    parser = ToolCallParser(MIXED)
    events = parser.push(text)
    # Where closing tags are missing, more turns out to be a call at the very end; what is said then is past.
    bound = [event.index for event in events if isinstance(event, CallBegin) and event.name == "forecast"]
    events += parser.finish(cut=False)
    if accepts(compiler, strict(compiler, form), text, engine):
        for index in bound:
            pieces = [e.text for e in events if isinstance(e, CallArguments) and e.index == index]
            arguments = json.loads("".join(pieces))
            assert arguments["city"] in ("Rome", "Oslo") and arguments["days"] <= 9 and len(arguments) == 2
    else:
        # Nothing else is held up, but for beginnings of calls that were never finished or are of the other form.
        assert bound or "forecast" in text or re.search(r"<tool_call>\s*\{", text)


def test_a_model_can_have_more_logits_than_there_are_tokens(engine):
    size, ends = engine.tokenizer.vocab_size, engine.config["eos_token_ids"]
    constraint = GrammarCompiler(engine.tokenizer, size + 100, ends).json_schema({"type": "string"})
    for id in engine.tokenizer.encode('"any'):
        constraint.accept(id)
    allowed = np.unpackbits(constraint.mask().view(np.uint8), bitorder="little")
    assert allowed[:size].sum() > size // 2 and not allowed[size:].any()


def test_any_object(compiler, engine):
    assert accepts(compiler, compiler.json_schema(), '{"a": [1, {"b": null}]}', engine)
    assert not accepts(compiler, compiler.json_schema(), "[1]", engine)


@pytest.mark.parametrize(
    "schema", [{"type": "foo"}, {"type": "string", "pattern": "(?=a)"}, {"$ref": "#/nowhere"}, {"minimum": "many"}]
)
def test_a_schema_that_cannot_be_enforced(compiler, schema):
    with pytest.raises(InputError, match="cannot be enforced"):
        compiler.json_schema({"type": "object", "properties": {"a": schema}})


def test_end_tokens_cannot_be_ignored(compiler, engine):
    with pytest.raises(InputError, match="ignore_eos"):
        engine.generate("Hi", constraint=compiler.json_schema(), ignore_eos=True)
