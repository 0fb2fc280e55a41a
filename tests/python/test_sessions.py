"""Sessions: conversations side by side on one engine."""

import pytest

import swiftlet
from swiftlet import InputError

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


def test_messages_is_a_copy(engine):
    session = swiftlet.Session(engine)
    session.messages.append({"role": "user", "content": "x"})
    assert session.messages == []
