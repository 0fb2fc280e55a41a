import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import REFERENCE
from swiftlet import ContainerError, InputError, Tokenizer

Q35 = Tokenizer(REFERENCE / "tokenizer" / "q35")


def test_encode_and_decode_match_transformers(text_folder, cases):
    tokenizer = Tokenizer(text_folder)
    for case in cases["encode"]:
        assert tokenizer.encode(case["text"]) == case["ids"], case["text"]
        assert tokenizer.decode(case["ids"], skip_special=False) == case["decoded"]
        assert tokenizer.decode(case["ids"]) == case["decoded_skip_special"]
    assert tokenizer.added_tokens == cases["special"]


def test_special_ids_are_those_marked_special(text_folder):
    tokenizer = Tokenizer(text_folder)
    assert tokenizer.added_tokens["<|im_end|>"] in tokenizer.special_ids
    assert tokenizer.added_tokens["<tool_call>"] not in tokenizer.special_ids
    assert tokenizer.added_tokens["</think>"] not in tokenizer.special_ids


@given(st.lists(st.integers(0, 473)), st.booleans())
def test_decode_of_any_ids_is_what_the_library_gives(ids, skip_special):
    assert Q35.decode(ids, skip_special=skip_special) == Q35._tokenizer.decode(ids, skip_special_tokens=skip_special)


@given(st.text())
def test_encoding_loses_nothing(text):
    ids = Q35.encode(text)
    assert Q35.encode(Q35.decode(ids, skip_special=False)) == ids


def test_an_id_without_a_token_has_no_text():
    assert Q35.token_bytes(500) == b""
    assert Q35.decode([64, 500, 65]) == "ab"


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(InputError, match="character 2 "):
        Q35.encode("ab\ud800")


def test_tokens_listed_only_in_the_config_are_added(text_folder):
    path = text_folder / "tokenizer.json"
    tokens = json.loads(path.read_text(encoding="utf-8"))
    tokens["added_tokens"] = [t for t in tokens["added_tokens"] if t["content"] not in ("<think>", "</think>")]
    path.write_text(json.dumps(tokens), encoding="utf-8")
    tokenizer = Tokenizer(text_folder)
    assert tokenizer.encode("<think>a</think>") == [472, 64, 473]
    assert 472 not in tokenizer.special_ids


def test_contradicting_ids_are_refused(text_folder):
    path = text_folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["added_tokens_decoder"]["480"] = {"content": "<think>"}
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ContainerError, match=r"tokenizer_config\.json gives '<think>' the id 480"):
        Tokenizer(text_folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", None, r"tokenizer\.json is missing"),
        ("tokenizer.json", "{", r"tokenizer\.json cannot be loaded"),
        ("tokenizer_config.json", "{", r"tokenizer_config\.json is not valid JSON"),
        ("tokenizer_config.json", "[]", "does not hold a JSON object"),
        ("tokenizer_config.json", '{"added_tokens_decoder": [1]}', "malformed added_tokens_decoder"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": {}}}', "malformed added_tokens_decoder"),
    ],
)
def test_damaged_files_are_named(text_folder, name, content, message):
    if content is None:
        (text_folder / name).unlink()
    else:
        (text_folder / name).write_text(content)
    with pytest.raises(ContainerError, match=message):
        Tokenizer(text_folder)


def test_bytes_of_all_tokens(text_folder):
    path = text_folder / "tokenizer.json"
    tokens = json.loads(path.read_text(encoding="utf-8"))
    tokens["model"]["vocab"]["a"] = 1000  # ids may have gaps
    path.write_text(json.dumps(tokens), encoding="utf-8")
    tokenizer = Tokenizer(text_folder)
    assert tokenizer.vocab_size == 1001
    assert tokenizer.all_token_bytes() == [tokenizer.token_bytes(id) for id in range(1001)]
    assert tokenizer.all_token_bytes()[1000] == b"a"


def test_other_kinds_of_tokenizers_are_refused(text_folder):
    path = text_folder / "tokenizer.json"
    tokens = json.loads(path.read_text(encoding="utf-8"))
    tokens["decoder"] = {"type": "Fuse"}
    path.write_text(json.dumps(tokens), encoding="utf-8")
    with pytest.raises(ContainerError, match="decoder Fuse; only ByteLevel"):
        Tokenizer(text_folder)
