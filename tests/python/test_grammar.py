"""Answers under a grammar: the demo model says what it likes, and it fits all the same."""

import json

import pytest

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
