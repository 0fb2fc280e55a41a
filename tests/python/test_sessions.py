"""Sessions: conversations side by side on one engine."""

import json
import shutil
import subprocess
import sys
import threading

import pytest

import fake_core
import swiftlet
from conftest import REFERENCE
from swiftlet import InputError
from swiftlet.models import resolve

QUESTION = "What is the capital of Vietnam?"
GREEDY = {"temperature": 0.0, "max_tokens": 24, "enable_thinking": False}


@pytest.fixture(scope="module")
def engine():
    with swiftlet.Engine("demo", context=1024) as engine:
        yield engine


def test_a_session_remembers_what_was_said(engine):
    session = swiftlet.Session(engine, system="Be brief.", **GREEDY)
    reply = session.send(QUESTION)
    text = "".join(map(str, reply))
    assert text == reply.result.text and "Hanoi" in text
    assert session.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": QUESTION},
        reply.message,
    ]
    assert reply.message == {"role": "assistant", "content": text}
    messages = [*session.messages, {"role": "user", "content": "And of France?"}]
    assert session.ask("And of France?").token_ids == engine.complete(messages, **GREEDY).token_ids
    assert [m["role"] for m in session.messages] == ["system", "user", "assistant", "user", "assistant"]


def test_thoughts_are_kept_apart(engine):
    session = swiftlet.Session(engine, temperature=0, max_tokens=200)
    with session.send(QUESTION, enable_thinking=True) as reply:
        assert reply.begins_thinking
        assert "</think>" in "".join(map(str, reply))
    answer = session.messages[-1]
    assert answer["reasoning_content"] and "</think>" not in answer["content"] and "Hanoi" in answer["content"]


def test_an_answer_that_was_ended_early_stays(engine):
    session = swiftlet.Session(engine, **GREEDY)
    reply = session.send(QUESTION)
    first = str(next(reply))
    second = session.send("Thanks!")
    assert reply.result.finish_reason == "cancelled"
    assert session.messages == [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": first.lstrip()}]
    second.close()  # nothing was said
    assert len(session.messages) == 2


def test_after_an_error_neither_side_was_said(engine):
    session = swiftlet.Session(engine, messages=[{"role": "user", "content": QUESTION}], **GREEDY)
    with pytest.raises(InputError, match="context is 1024"):
        session.send("long " * 2000)
    with pytest.raises(InputError, match="not int"):
        session.send(5)

    def fail(done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        session.ask("Hello", on_prefill=fail)
    assert len(session.messages) == 1


def test_ctrl_c_keeps_what_was_said(engine):
    session = swiftlet.Session(engine, **GREEDY)
    reply = session.send(QUESTION)
    next(reply)
    reply._stream._generation = Interrupted(reply._stream._generation)
    with pytest.raises(KeyboardInterrupt):
        next(reply)
    assert len(session.messages) == 2 and reply.result.finish_reason == "cancelled"


class Interrupted:
    """A generation whose next token is Ctrl-C."""

    def __init__(self, generation):
        self.stats = generation.stats

    def next(self, interrupt):
        raise KeyboardInterrupt


def test_sessions_ask_in_turn_from_threads(engine):
    questions = [QUESTION, "What is 2 + 3?", "Thank you!"]
    want = [engine.complete(question, **GREEDY).text for question in questions]
    sessions = [swiftlet.Session(engine, **GREEDY) for _ in questions]
    threads = [threading.Thread(target=s.ask, args=(q,)) for s, q in zip(sessions, questions, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [session.messages[-1]["content"] for session in sessions] == want


def test_messages_is_a_copy(engine):
    session = swiftlet.Session(engine)
    session.messages.append({"role": "user", "content": "x"})
    assert session.messages == []


# What a follow-up prefills


TEMPLATES = {
    "demo": resolve("demo") / "chat_template.jinja",
    "next": REFERENCE / "tokenizer" / "next" / "chat_template.jinja",
    "q35": REFERENCE / "tokenizer" / "q35" / "chat_template.jinja",
}


@pytest.fixture(params=TEMPLATES)
def template(request):
    return request.param


@pytest.fixture
def folder(template, tmp_path):
    """The demo model with the template of a family."""
    folder = shutil.copytree(resolve("demo"), tmp_path / "model.qpack")
    shutil.copy(TEMPLATES[template], folder / "chat_template.jinja")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["chat_template.jinja"] = (folder / "chat_template.jinja").stat().st_size
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def ends(engine, ids):
    """Where messages of a prompt end."""
    return [i + 1 for i, id in enumerate(ids) if id == engine.tokenizer.added_tokens["<|im_end|>"]]


@pytest.mark.parametrize("thinking", [True, False])
def test_a_follow_up_prefills_what_changed(folder, template, thinking, tmp_path):
    options = {"temperature": 0, "max_tokens": 60, "enable_thinking": thinking}
    engine = swiftlet.Engine(folder, context=1024, state_memory="1GB", state_dir=tmp_path / "states")
    sessions = [swiftlet.Session(engine, system=f"You are number {i}.", **options) for i in range(2)]
    known = [0, 0]
    questions = [QUESTION, "What is 2 + 3?", "Thank you!", "Tell me a story.", "Why?"]
    for turn, question in enumerate(questions):
        for i, session in enumerate(sessions):
            prompt = engine.encode([*session.messages, {"role": "user", "content": question}], enable_thinking=thinking)
            result = session.ask(question)
            assert result.stats.cached_tokens == known[i], (turn, i)
            # A template that drops thoughts, also the empty ones, changes what follows the question.
            whole = prompt + result.token_ids[:-1]
            goes_on = begins(engine, session, whole, thinking)
            assert goes_on == (template == "next" and "</think>" not in result.text)
            known[i] = len(whole) if goes_on else ends(engine, prompt)[-1]
        if turn == 2:
            engine.close()
            engine = swiftlet.Engine(folder, context=1024, state_memory="1GB", state_dir=tmp_path / "states")
            sessions = [swiftlet.Session(engine, messages=s.messages, **options) for s in sessions]
    with swiftlet.Engine(folder, context=1024, state_memory=0) as cold:
        for session in sessions:
            answer = session.messages[-1]
            again = swiftlet.Session(cold, messages=session.messages[:-2], **options)
            with again.send(session.messages[-2]) as reply:
                list(reply)
            assert reply.message == answer
    engine.close()


def begins(engine, session, whole, thinking):
    """Whether the next prompt begins with all that the last one and its answer had."""
    follow_up = engine.encode([*session.messages, {"role": "user", "content": "?"}], enable_thinking=thinking)
    return follow_up[: len(whole)] == whole


@pytest.mark.parametrize("template", ["demo", "q35"])
def test_tools_and_then_the_user_again(folder, template):
    engine = swiftlet.Engine(folder, context=2048)
    options = {"temperature": 0, "max_tokens": 3, "enable_thinking": True}
    messages = [{"role": "user", "content": "What is the weather in Hanoi, and elsewhere?"}]
    engine.complete(messages, **options)
    question = ends(engine, engine.encode(messages, enable_thinking=True))[-1]
    for step in range(6):
        before = engine.encode(messages, enable_thinking=True)
        call = {"type": "function", "function": {"name": "weather", "arguments": {"city": f"number {step}"}}}
        messages += [
            {"role": "assistant", "content": "", "reasoning_content": "Let me look.", "tool_calls": [call]},
            {"role": "tool", "content": "sunny"},
        ]
        # The thoughts of this question stay, and so does what was known of it.
        assert engine.complete(messages, **options).stats.cached_tokens == ends(engine, before)[-1]
    messages += [{"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "Thanks!"}]
    # Now they are dropped.
    assert engine.complete(messages, **options).stats.cached_tokens == question
    assert engine.stats["snapshots"] <= 4
    engine.close()


def test_a_long_first_message_serves_other_conversations(engine):
    engine.reset()
    system = {"role": "system", "content": "These are the rules of the house. " * 60}
    for i, question in enumerate(["Hello!", "What is the capital of France?"]):
        prompt = [system, {"role": "user", "content": question}]
        first = ends(engine, engine.encode(prompt))[0]
        assert first > 512
        result = engine.complete(prompt, temperature=0, max_tokens=2)
        assert result.stats.cached_tokens == (first if i else 0)


def test_engine_calls_with_whole_conversations_are_as_good_as_sessions(engine):
    engine.reset()
    messages = [{"role": "user", "content": QUESTION}]
    first = engine.complete(messages, **GREEDY)
    messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And of France?"}]
    kept = ends(engine, engine.encode(QUESTION))[-1]
    assert engine.complete(messages, **GREEDY).stats.cached_tokens == kept
    assert engine.complete(QUESTION, **GREEDY).token_ids == first.token_ids
    assert engine.complete(QUESTION, **GREEDY).stats.cached_tokens == kept
    engine.reset()
    assert engine.complete(QUESTION, **GREEDY).stats.cached_tokens == 0


# Saving


def test_conversations_survive_without_close(tmp_path):
    program = """
import swiftlet, sys
engine = swiftlet.Engine("demo", context=512, state_dir=sys.argv[1])
print(engine.complete("What is the capital of Vietnam?", temperature=0, max_tokens=8).stats.cached_tokens)
"""
    run = [sys.executable, "-c", program, str(tmp_path / "a" / "states")]
    cached = [int(subprocess.run(run, check=True, capture_output=True, text=True).stdout) for _ in range(2)]
    assert cached[0] == 0 and cached[1] > 0


def test_what_goes_wrong_on_disk_is_logged(tmp_path, caplog):
    states = tmp_path / "states"
    with swiftlet.Engine("demo", context=512, state_dir=states, state_memory=0) as engine:
        expected = engine.complete(QUESTION, **GREEDY).token_ids
        engine.save_states()
    for file in states.iterdir():
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    with swiftlet.Engine("demo", context=512, state_dir=states, state_memory=0) as engine:
        assert not caplog.records
        assert engine.complete(QUESTION, **GREEDY).token_ids == expected
        (record,) = caplog.records
        assert record.name == "swiftlet" and "is damaged" in record.getMessage()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state_memory": "much"}, "state_memory is 'much'"),
        ({"state_memory": -1}, "state_memory is -1"),
        ({"state_memory": False}, "state_memory is False"),
        ({"state_disk": 0}, "state_disk is 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        swiftlet.Engine("demo", **options)


def test_the_ceiling_holds_with_snapshots():
    """In a process of its own: the peak of the resident set, with all of the budget for snapshots used."""
    program = """
import swiftlet
engine = swiftlet.Engine("demo", context=4096, state_memory="20MB")
for i in range(9):
    engine.complete([5 + (i * 7 + j) % 3000 for j in range(1200)], temperature=0, max_tokens=1)
stats = engine.stats
print(stats["snapshot_bytes"], stats["peak_resident_set_bytes"], engine.plan["ceiling"])
"""
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    used, peak, ceiling = map(int, out.split())
    assert 15_000_000 < used <= 20_000_000
    assert peak <= ceiling


# With a scripted core


def test_calls_of_functions_are_part_of_the_message(monkeypatch, next_folder):
    monkeypatch.setattr(swiftlet._core, "Engine", fake_core.FakeEngine)
    monkeypatch.setattr(swiftlet._core, "check_container", lambda path: None)
    monkeypatch.setattr(fake_core.FakeEngine, "context", 4096)
    (next_folder / "manifest.json").write_text("{}")
    engine = swiftlet.Engine(next_folder)
    text = 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Hanoi"}}\n</tool_call>'
    engine._model.script = [*engine.tokenizer.encode(text), 450]
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    session = swiftlet.Session(engine, tools=tools)
    session.ask("What is the weather?")
    message = session.messages[-1]
    (call,) = message["tool_calls"]
    assert message["content"].strip() == "Let me see."
    assert call["type"] == "function" and call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Hanoi"}
    engine._model.script = [*engine.tokenizer.encode("Sunny."), 450]
    session.ask([{"role": "tool", "content": "sunny", "tool_call_id": call["id"]}])
    assert [m["role"] for m in session.messages] == ["user", "assistant", "tool", "assistant"]
