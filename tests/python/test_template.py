import json
from datetime import datetime

import pytest

from swiftlet import ChatTemplate, ContainerError, InputError, Tokenizer

USER = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def render(tmp_path):
    """Renders a template given as text."""

    def render(source, messages=USER, config=None, **options):
        (tmp_path / "chat_template.jinja").write_text(source, encoding="utf-8")
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config or {}), encoding="utf-8")
        return ChatTemplate(tmp_path).render(messages, **options)

    return render


def test_conversations_match_transformers(text_folder, cases):
    template, tokenizer = ChatTemplate(text_folder), Tokenizer(text_folder)
    assert len(cases["chat"]) == 8
    for entry in cases["chat"]:
        text = template.render(**entry["case"])
        assert text == entry["text"]
        assert tokenizer.encode(text) == entry["ids"]


def test_tool_arguments_as_json_text_render_like_the_object(text_folder, cases):
    entry = next(e for e in cases["chat"] if "tools" in e["case"])
    case = json.loads(json.dumps(entry["case"]))
    function = case["messages"][1]["tool_calls"][0]["function"]
    function["arguments"] = json.dumps(function["arguments"])
    before = json.dumps(case)
    assert ChatTemplate(text_folder).render(**case) == entry["text"]
    assert json.dumps(case) == before, "the caller's messages must stay as they are"


def test_blocks_are_trimmed(render):
    assert render("  {% if true %}\n    a\n  {% endif %}\nb") == "    a\nb"


def test_tojson_neither_escapes_nor_sorts(render):
    assert render("{{ x | tojson }}", x={"b": "<é>", "a": 1}) == '{"b": "<é>", "a": 1}'
    assert render("{{ x | tojson(indent=1) }}", x=[1]) == "[\n 1\n]"


def test_helpers(render):
    assert render("{{ strftime_now('%Y') }}") == str(datetime.now().year)
    assert render("{% for m in [1, 2, 3] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}") == "1"
    assert render("a{% generation %}b{{ messages[0].content }}{% endgeneration %}c") == "abHic"


def test_variables(render):
    config = {"bos_token": None, "eos_token": "<E>", "pad_token": {"content": "<P>"}}
    source = "{{ bos_token is defined }} {{ eos_token }}{{ pad_token }} {{ tools }} {{ add_generation_prompt }} {{ x }}"
    assert render(source, config=config, x=5) == "False <E><P> None True 5"


def test_raise_exception_is_the_message(render):
    with pytest.raises(InputError, match=r"^Unknown role: wizard$"):
        render("{{ raise_exception('Unknown role: ' + messages[0].role) }}", [{"role": "wizard", "content": ""}])


def test_failures_inside_a_template(render):
    with pytest.raises(InputError, match=r"cannot render these messages: .*no attribute 'name'"):
        render("{{ messages[0].name.first }}")
    with pytest.raises(ContainerError, match=r"chat_template\.jinja: line 2 of the template"):
        render("a\n{% if %}")


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% for i in range(10**9) %}{% endfor %}",
    ],
)
def test_templates_are_sandboxed(render, attack):
    with pytest.raises((ContainerError, InputError)):
        render(attack)


def test_named_templates(tmp_path):
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    template = ChatTemplate(tmp_path)
    assert template.render(USER) == "plain"
    assert template.render(USER, tools=[]) == "plain"
    assert template.render(USER, tools=[{"type": "function"}]) == "tools"
    (tmp_path / "chat_template.jinja").write_text("the file wins")
    assert ChatTemplate(tmp_path).render(USER) == "the file wins"


@pytest.mark.parametrize("entry", [5, [1], [{"name": "default"}], [{"name": "rag", "template": "x"}]])
def test_malformed_template_entries(tmp_path, entry):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": entry}))
    with pytest.raises(ContainerError, match=r"tokenizer_config\.json: chat_template"):
        ChatTemplate(tmp_path)


def test_without_a_template(tmp_path):
    with pytest.raises(InputError, match="no chat template; give text with raw=True"):
        ChatTemplate(tmp_path).render(USER)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "messages is empty"),
        ("hello", "messages must be a list, not str"),
        (["hello"], r"messages\[0\] must be an object, not str"),
        ([{"content": "x"}], r'messages\[0\] has no "role"'),
        ([{"role": "user", "content": 5}], r'"content" of messages\[0\] must be text, not int'),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "part of type 'image_url'; only text"),
        ([{"role": "user", "content": ["x"]}], "part of type 'str'"),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "tool call without a function name"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}], "'f' .* not JSON"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}], "not an object"),
    ],
)
def test_malformed_messages(render, messages, message):
    with pytest.raises(InputError, match=message):
        render("x", messages)
