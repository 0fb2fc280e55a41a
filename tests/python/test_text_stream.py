from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import REFERENCE
from swiftlet import Tokenizer
from swiftlet.stream import TextStream

TOKENIZER = Tokenizer(REFERENCE / "tokenizer" / "q35")
IM_END, THINK_END, TOOL_CALL = 450, 473, 462


def pieces(ids, stop=()):
    """What is shown after each token, and at the end; then the stop string that was met."""
    stream = TextStream(TOKENIZER, stop)
    shown = []
    for id in ids:
        shown.append(stream.push(id))
        if stream.stopped is not None:
            break
    shown.append(stream.finish())
    return shown, stream.stopped


@given(st.lists(st.integers(0, 511)))
def test_pieces_of_any_ids_are_the_decoded_text(ids):
    assert "".join(pieces(ids)[0]) == TOKENIZER.decode(ids)


@given(st.text())
def test_characters_are_never_split(text):
    ids = TOKENIZER.encode(text)
    shown, _ = pieces(ids)
    assert "".join(shown) == TOKENIZER.decode(ids)
    assert "".join(shown).count("\ufffd") == TOKENIZER.decode(ids, skip_special=True).count("\ufffd")


@pytest.mark.parametrize("text", ["👩‍👩‍👧 family", "é à̖ नमस्ते", "今天天气", "🙂🚀"])
def test_no_replacement_characters_for_whole_text(text):
    ids = TOKENIZER.encode(text)
    assert len(ids) > len(text), "these characters must take several tokens for the test to mean something"
    shown, _ = pieces(ids)
    assert all("\ufffd" not in piece for piece in shown)
    assert "".join(shown) == TOKENIZER.decode(ids)


def test_an_incomplete_character_is_flushed_at_the_end():
    ids = TOKENIZER.encode("🙂")[:-1]
    shown, _ = pieces(ids)
    assert shown == [""] * len(ids) + ["\ufffd"]


def test_special_tokens_are_hidden_and_tags_are_shown():
    shown, _ = pieces([64, IM_END, THINK_END, TOOL_CALL])
    assert shown == ["a", "", "</think>", "<tool_call>", ""]


def test_a_stop_string_over_several_tokens_never_leaks():
    shown, met = pieces(TOKENIZER.encode("one\nUser: two"), ["\nUser:"])
    assert ("".join(shown), met) == ("one", "\nUser:")
    assert "\n" not in "".join(shown)


def test_what_looked_like_a_stop_string_is_shown_when_it_is_none():
    shown, met = pieces(TOKENIZER.encode("a\nUse it"), ["\nUser:"])
    assert ("".join(shown), met) == ("a\nUse it", None)
    shown, met = pieces(TOKENIZER.encode("a\nUser"), ["\nUser:"])
    assert ("".join(shown), met) == ("a\nUser", None)


def cut(text, stops):
    """The text before the stop string that is complete first, found character by character."""
    for end in range(1, len(text) + 1):
        met = [stop for stop in stops if text[:end].endswith(stop)]
        if met:
            return text[: end - len(max(met, key=len))]
    return text


@given(st.text("ab", max_size=40), st.lists(st.text("ab", min_size=1, max_size=5), max_size=3), st.data())
def test_stop_strings_do_not_depend_on_token_boundaries(text, stops, data):
    class Pieces:
        """A tokenizer whose tokens are random cuts of the text."""

        special_ids = frozenset()

        def __init__(self, texts):
            self.texts = texts

        def token_bytes(self, id):
            return self.texts[id].encode()

    marks = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    parts = [text[a:b] for a, b in pairwise(marks)]
    stream = TextStream(Pieces(parts), stops)
    shown = ""
    for id in range(len(parts)):
        shown += stream.push(id)
        if stream.stopped is None:
            # Held back: no more than could still become a stop string.
            rest = text[: marks[id + 1]][len(shown) :]
            assert not rest or any(stop.startswith(rest) for stop in stops)
    shown += stream.finish()
    assert shown == cut(text, stops)
    assert (stream.stopped is None) == (not any(stop in text for stop in stops))


def test_stop_strings_do_not_count_in_thoughts():
    text = "First,\n\nsecond.\n</think>\n\nHello\n\nworld"
    stream = TextStream(TOKENIZER, ["\n\nw", "st,"], in_thoughts=True)
    shown = "".join(map(stream.push, TOKENIZER.encode(text))) + stream.finish()
    assert shown == "First,\n\nsecond.\n</think>\n\nHello"
    assert stream.stopped == "\n\nw"
    stream = TextStream(TOKENIZER, ["x"], in_thoughts=True)
    assert "".join(map(stream.push, TOKENIZER.encode("a </thi"))) + stream.finish() == "a </thi"


def test_stop_strings_do_not_count_in_the_line_breaks_behind_thoughts():
    text = "Hm.\n</think>\n\nHello\nworld"
    for pieces in ([text], list(text)):
        ids = [id for piece in pieces for id in TOKENIZER.encode(piece)]
        stream = TextStream(TOKENIZER, ["\n"], in_thoughts=True)
        assert "".join(map(stream.push, ids)) + stream.finish() == "Hm.\n</think>\n\nHello"
        assert stream.stopped == "\n"
