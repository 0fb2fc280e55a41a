"""Function calls and thoughts, taken out of an answer that streams."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.answer_parser import AnswerParser, Reasoning
from swiftlet.json_values import fit, typed_value
from swiftlet.thinking import ThinkingSplitter, split_thinking
from swiftlet.tool_calls import CallArguments, CallBegin, Text, ToolCallParser

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "hourly": {"type": ["boolean", "null"]},
        "options": {"type": "object"},
        "unit": {"enum": ["C", "F"]},
        "place": {"$ref": "#/$defs/place"},
    },
    "$defs": {"place": {"anyOf": [{"type": "number"}, {"type": "array"}]}},
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "now"}},
]


def xml(name, parameters):
    """A call as the template writes it."""
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


def as_json(name, arguments):
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def collect(events):
    """Text, calls and thoughts of events, each as one piece."""
    text, thoughts, calls = "", "", []
    for event in events:
        if isinstance(event, Text):
            text += event.text
        elif isinstance(event, Reasoning):
            thoughts += event.text
        elif isinstance(event, CallBegin):
            assert event.index == len(calls) and event.name and event.id == str(event.index)
            calls.append([event.name, ""])
        else:
            assert isinstance(event, CallArguments)
            calls[event.index][1] += event.text
    return text, [(name, json.loads(arguments)) for name, arguments in calls], thoughts


def parse(pieces, *, cut=False, begun=None, must_call=False):
    ids = map(str, itertools.count())
    if begun is None:
        parser = ToolCallParser(TOOLS, lambda: next(ids))
    else:
        parser = AnswerParser(begun=begun, tools=TOOLS, new_id=lambda: next(ids), must_call=must_call)
    pieces = [pieces] if isinstance(pieces, str) else pieces
    return collect([event for piece in pieces for event in parser.push(piece)] + parser.finish(cut=cut))


def calls_of(text, **options):
    return parse(text, **options)[:2]


PARIS = {"city": "Paris"}


@pytest.mark.parametrize("form", [xml, as_json])
def test_one_call(form):
    assert calls_of(form("weather", PARIS)) == ("", [("weather", PARIS)])


@pytest.mark.parametrize("form", [xml, as_json])
def test_prose_around_two_calls(form):
    answer = f"Let me see.\n\n{form('weather', PARIS)}\n{form('now', {})}\nDone."
    assert calls_of(answer) == ("Let me see.Done.", [("weather", PARIS), ("now", {})])


@pytest.mark.parametrize(
    "answer",
    [
        xml("weather", PARIS).removeprefix("<tool_call>\n"),
        xml("weather", PARIS).removesuffix("\n</tool_call>"),
        xml("weather", PARIS).removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"),
        xml("weather", PARIS).removesuffix("\n</function>\n</tool_call>"),
        xml("weather", PARIS).removesuffix("\n</parameter>\n</function>\n</tool_call>"),
        xml("weather", PARIS).replace("</parameter>\n", ""),
        xml("weather", PARIS).replace("</function>\n", ""),
        '<function=weather>{"city": "Paris"}</function>',
        '<function="weather"><parameter=city>Paris</parameter></function>',
        as_json("weather", PARIS).removeprefix("<tool_call>\n"),
        as_json("weather", PARIS).removesuffix("\n</tool_call>"),
        '{"name": "weather", "arguments": {"city": "Paris"}}',
        '<tool_call>{"name": "weather", "parameters": {"city": "Paris"}}</tool_call>',
        '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}</tool_call>',
        "<tool_call>{'name': 'weather', 'arguments': {'city': 'Paris'}}</tool_call>",
    ],
)
def test_sloppy_calls_are_calls(answer):
    assert calls_of(answer) == ("", [("weather", PARIS)])


@pytest.mark.parametrize(
    "answer",
    [
        "A call begins with <tool_call> and <function=name>, inside <function= or <tool_call>\n",
        "<tool_call>nothing</tool_call>",
        "<tool_call>{broken}</tool_call> and more",
        '<tool_call>{"city": "Paris"}</tool_call>',
        '{"name": "Ann", "arguments": {}}',
        '{"name": "weather"}',
        "a < b, <tool",
        "<function=unknown><parameter=a>1</parameter></function>",
        "<function=\u00a0weather><parameter=city>Paris</parameter></function>",
        '<tool_call>\x0b{"name": "weather", "arguments": {}}</tool_call>',
        '{\x0c"name": "weather", "arguments": {}}',
        f"<tool_call>{{no {xml('now', {})}}}</tool_call>",
        '{"name":"now","arguments":{},"arguments":[],"see":"<function=now></function>"}',
        " \n ",
    ],
)
def test_what_is_no_call_stays_text(answer):
    assert calls_of(answer) == (answer, [])


@pytest.mark.parametrize(
    "value",
    [
        "<b>bold</b> </parameter> and </function>",
        "</tool_call>",
        "<tool_call>\n<function=now>\n</function>\n</tool_call>",
        xml("weather", {"city": "Lyon", "days": 2}),
        "ends with </parameter>\n</function>",
        "</parameter>\n<parameter=city>\nagain",
        '{"name": "now", "arguments": {}}',
        "\n\n  indented\n",
        "",
        "👩‍👩‍👧 \u0000 漢字",
    ],
)
def test_tags_inside_a_value(value):
    assert calls_of(xml("weather", {"city": value, "days": 1})) == ("", [("weather", {"city": value, "days": 1})])
    arguments = {"city": value, "options": {"a": [value]}}
    assert calls_of(as_json("weather", arguments)) == ("", [("weather", arguments)])


def test_values_have_the_types_of_the_schema():
    written = {"city": "7", "days": "3", "hourly": "True", "options": "{'a': 1}", "unit": "C", "place": "[1.5]"}
    typed = {"city": "7", "days": 3, "hourly": True, "options": {"a": 1}, "unit": "C", "place": [1.5]}
    assert calls_of(xml("weather", written)) == ("", [("weather", typed)])
    assert calls_of(as_json("weather", {**typed, "days": "3", "place": "[1.5]"})) == ("", [("weather", typed)])


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5.0", {"type": "integer"}, 5),
        ("many", {"type": "integer"}, "many"),
        ("null", {"type": ["string", "null"]}, None),
        ("null", {"type": "string"}, "null"),
        ("NaN", {"type": "number"}, "NaN"),
        ("1" * 5000, {"type": "integer"}, "1" * 5000),
        ("[" * 5000, {"type": "array"}, "[" * 5000),
        ("true", {}, True),
        ("true", None, "true"),
        ("1", {"const": 1}, 1),
        ("1", {"$ref": "#"}, 1),
        ("x", {"anyOf": [{"$ref": "#"}]}, "x"),
    ],
)
def test_typed_value(text, schema, value):
    assert typed_value(text, schema, schema) == value


def test_fit_turns_numbers_into_text_where_text_belongs():
    assert fit(5, {"type": "string"}, None) == "5"
    assert fit({"a": 1}, {"type": "string"}, None) == '{"a": 1}'
    assert fit(5.0, {"type": "integer"}, None) == 5
    assert fit([1], {"type": "integer"}, None) == [1]


def test_a_call_that_is_cut_off_has_what_was_complete():
    whole = xml("weather", {"city": "Paris", "days": "12", "unit": "C"})
    seen = set()
    for end in range(1, len(whole)):
        text, calls = calls_of(whole[:end], cut=True)
        assert text == (whole[:end] if end < len("<tool_call>") else "")
        assert bool(calls) == (end >= whole.index(">\n<parameter") + 1)
        for _, arguments in calls:
            assert arguments.items() <= {"city": "Paris", "days": 12, "unit": "C"}.items()
            seen.add(len(arguments))
    assert seen == {0, 1, 2, 3}


def test_the_first_of_several_names_is_the_name():
    for call in (
        '{"name": "now", "name": "weather", "arguments": {"name": "a"}}',
        '{"name": "now", "arguments": {"name": "a"}, "name": "weather"}',
        "{\"name\": \"now\", 'name': 'weather', 'arguments': {'name': 'a'}}",
    ):
        assert calls_of(f"<tool_call>{call}</tool_call>") == ("", [("now", {"name": "a"})])


def test_a_json_call_that_is_cut_off():
    arguments = {"city": "Paris", "days": 12, "options": {"a": [1, 2]}}
    whole = as_json("weather", arguments)
    for end in range(1, len(whole)):
        text, calls = calls_of(whole[:end], cut=True)
        assert text == (whole[:end] if end < len("<tool_call>") else "")
        assert bool(calls) == (end >= whole.index('",') + 1)
        assert all(given.items() <= arguments.items() for _, given in calls)
    assert calls_of('<tool_call>{"name": "weather", "arguments": {"city": "Paris", "days": 1', cut=True) == (
        "",
        [("weather", {"city": "Paris"})],
    )


@pytest.mark.parametrize("form", [xml, as_json])
@pytest.mark.parametrize("said", ["", "Let me see.\n", "<think>\nHm.\n</think>\n\n"])
def test_half_a_tag_is_no_content(form, said):
    """Whatever the cut, content has nothing of a call's tags, and the same streamed or not."""
    call = form("weather", PARIS)
    for end in range(len(call)):
        for must_call in (False, True):
            tags = not must_call and 0 < end < len("<tool_call>")
            shown = said.rpartition("\n\n")[2].rstrip() if end and not tags else said.rpartition("\n\n")[2]
            for pieces in ([said + call[:end]], list(said + call[:end])):
                text, _, thoughts = parse(pieces, cut=True, begun=False, must_call=must_call)
                assert text == shown + (call[:end] if tags else "")
                assert thoughts == ("Hm." if "think" in said else "")


@pytest.mark.parametrize("text", ["a <", "1 <b", "The tag <tool", "<func", "a <tool_call> b <", '{"name": "weath'])
def test_text_at_a_cut_stays_text(text):
    assert calls_of(text, cut=True) == (text, [])


def test_escapes_without_a_character():
    _, calls = calls_of('<tool_call>{"name": "weather", "arguments": {"city": "\\ud800"}}</tool_call>')
    assert calls == [("weather", {"city": "\ud800"})]


def test_a_long_value_in_many_pieces():
    value = "x" * 200_000
    for answer in (xml("weather", {"city": value}), as_json("weather", {"city": value})):
        pieces = [answer[i : i + 40] for i in range(0, len(answer), 40)]
        assert parse(pieces)[1] == [("weather", {"city": value})]


# Any way of cutting an answer gives the same result

FRAGMENTS = [
    "<tool_call>", "</tool_call>", "<function=weather>", "<function=nope>", "</function>", "<parameter=city>",
    "<parameter=days>", "</parameter>", "<think>", "</think>", "\n", " ", "5", "Paris", "{", "}", '"', ",", "\\",
    "é👩‍👧",
    '{"name": "weather", "arguments": {', '"city": "Paris"', "}}", "<", "<func", "</", xml("weather", PARIS),
    as_json("now", {}),
]  # fmt: skip


@st.composite
def cut_answers(draw):
    answer = "".join(draw(st.lists(st.sampled_from(FRAGMENTS), max_size=14)))
    places = sorted(draw(st.lists(st.integers(0, len(answer)), max_size=12)))
    return answer, [answer[a:b] for a, b in itertools.pairwise([0, *places, len(answer)])]


@settings(max_examples=400, deadline=None)
@given(cut_answers(), st.booleans(), st.booleans())
def test_any_split_gives_the_same(cut_answer, cut, begun):
    answer, pieces = cut_answer
    whole = parse(answer, cut=cut, begun=begun)
    assert parse(pieces, cut=cut, begun=begun) == whole
    assert parse(list(answer), cut=cut, begun=begun) == whole


# Text in nested strings that looks like tags

TAGS = st.lists(st.sampled_from([*FRAGMENTS[:8], "\n", "x", '"', "\\", "{", "]", "é"]), max_size=4).map("".join)
NESTED = st.recursive(
    TAGS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TAGS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(TAGS, NESTED, max_size=3),
    st.lists(NESTED, max_size=3),
    st.sampled_from([None, 2]),
    st.data(),
)
def test_tags_inside_strings_of_objects_and_lists(options, place, indent, data):
    written = {name: json.dumps(value, indent=indent, ensure_ascii=False)
               for name, value in (("options", options), ("place", place))}  # fmt: skip
    answer = f"So:\n{xml('weather', {**written, 'days': 3})}\n{xml('now', {})}"
    expected = "So:", [("weather", {"options": options, "place": place, "days": 3}), ("now", {})], ""
    places = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=8)))
    pieces = [answer[a:b] for a, b in itertools.pairwise([0, *places, len(answer)])]
    assert parse(answer) == parse(pieces) == parse(list(answer)) == expected
    # Cut anywhere, the arguments are those that were complete.
    for _, arguments in parse(answer[: places[-1] if places else 0], cut=True)[1]:
        assert arguments.items() <= expected[1][0][1].items()


@pytest.mark.parametrize("tail", ["", "\n</function>\n</tool_call>", "\n<parameter=days>\n5"])
def test_an_object_ends_without_its_tag(tail):
    value = {"a": ["</parameter>\n</function>\n</tool_call>"]}
    answer = f"<tool_call>\n<function=weather>\n<parameter=options>\n{json.dumps(value)}{tail}"
    days = {"days": 5} if "days" in tail else {}
    assert parse(answer) == parse(list(answer)) == ("", [("weather", {"options": value, **days})], "")


@pytest.mark.parametrize("value", ['{"a": 1', "{a}", '["it', "{'a': 1} or so"])
def test_what_only_begins_like_an_object_ends_at_its_tag(value):
    answer = xml("weather", {"options": value, "city": "Paris"})
    expected = "", [("weather", {"options": value, **PARIS})], ""
    assert parse(answer) == parse(list(answer)) == expected


def test_braces_behind_something_that_is_no_parameter_are_no_arguments():
    answer = "<function=weather>5{<tool_call>"
    assert parse(list(answer)) == parse(answer) == ("<tool_call>", [("weather", {})], "")


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["city", "b", "c"]), st.text(max_size=40), max_size=3),
    st.sampled_from([xml, as_json]),
)
def test_what_the_template_writes_is_read_back(parameters, form):
    parameters = {name: value.replace("<", "(").replace("\r", "") for name, value in parameters.items()}
    assert calls_of(f"So:\n{form('now', parameters)}") == ("So:", [("now", parameters)])


# Thoughts


@settings(max_examples=300, deadline=None)
@given(cut_answers(), st.booleans())
def test_thoughts_in_pieces(cut_answer, begun):
    answer, pieces = cut_answer
    splitter = ThinkingSplitter(begun=begun)
    parts = [*map(splitter.push, pieces), splitter.finish()]
    thoughts, content = ("".join(part) for part in zip(*parts, strict=True))
    assert (thoughts, content) == ((split := split_thinking(answer, begun=begun))[0] or "", split[1])


def test_thoughts_then_a_call():
    answer = f"I could <tool_call> here.\n</think>\n\n{xml('weather', PARIS)}"
    assert parse(answer, begun=True) == ("", [("weather", PARIS)], "I could <tool_call> here.")


def test_a_call_inside_thoughts_that_never_end_is_a_call():
    answer = f"I need the weather.\n{xml('weather', PARIS)}"
    text, calls, thoughts = parse(answer, begun=True)
    assert (text, calls) == ("", [("weather", PARIS)])
    assert thoughts == answer
    assert parse(answer, begun=True, cut=True)[1] == []
    assert parse(answer + " No, wait.", begun=True)[1] == []


def test_a_tag_in_content_is_content():
    assert parse("The tag </think> ends thoughts.", begun=False) == ("The tag </think> ends thoughts.", [], "")
    assert parse("hm</think>a</think>b", begun=True) == ("a</think>b", [], "hm")
