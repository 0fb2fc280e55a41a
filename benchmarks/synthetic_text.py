"""The vocabulary of the synthetic models: made-up words that belong to topics, and texts that stay on a topic.

A token's id says where it belongs: a topic, a passage of that topic, a theme. The model's embedding shows these three
(synthetic_model.py), so a text whose tokens share them for a while makes routers choose as they do on real text. The
tokenizer maps each token to a word of its own, so such a text survives decoding and encoding.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)


@dataclass(frozen=True)
class Topics:
    """How many there are of each, and for how many tokens a text stays with one on average."""

    topics: int = 64
    passages: int = 32  # of a topic
    themes: int = 8  # of a passage
    topic_tokens: float = 100
    passage_tokens: float = 25
    theme_tokens: float = 2

    @property
    def all_passages(self) -> int:
        return self.topics * self.passages

    def passage_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """0 .. topics * passages - 1; the topic is passage // passages."""
        return ids % self.all_passages

    def theme_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return ids // self.all_passages % self.themes


def token_script(topics: Topics, vocab: int, tokens: int, seed: int) -> list[int]:
    """Ids of a text that wanders from passage to passage and topic to topic. Earlier words of a theme are commoner."""
    random = np.random.default_rng(seed)
    members: dict[tuple[int, int], NDArray[np.int64]] = {}

    def words(passage: int, theme: int) -> NDArray[np.int64]:
        if (passage, theme) not in members:
            ids = np.arange(passage, vocab, topics.all_passages)
            members[passage, theme] = ids[topics.theme_of(ids) == theme]
        return members[passage, theme]

    script: list[int] = []
    topic = passage = theme = 0
    while len(script) < tokens:
        new_topic = not script or random.random() < 1 / topics.topic_tokens
        new_passage = new_topic or random.random() < 1 / topics.passage_tokens
        if new_topic:
            topic = int(random.integers(topics.topics))
        if new_passage:
            passage = topic * topics.passages + int(random.integers(topics.passages))
        if new_passage or random.random() < 1 / topics.theme_tokens:
            theme = int(random.integers(topics.themes))
        choices = words(passage, theme)
        choices = choices[choices >= 256]  # below are the bytes
        if len(choices):
            frequency = 1 / np.arange(1, len(choices) + 1)
            script.append(int(random.choice(choices, p=frequency / frequency.sum())))
    return script


def vocabulary(vocab: int, first_special: int) -> list[str]:
    """The tokens by id: bytes (in the byte-level alphabet), then words with their leading space, and the specials."""
    syllables = [consonant + vowel for consonant in "bdfghjklmnprstvz" for vowel in "aeiou"]
    base = len(syllables)
    tokens = _byte_alphabet()
    for word in range(vocab - len(tokens)):
        tokens.append("\u0120" + syllables[word % base] + syllables[word // base % base] + syllables[word // base**2])
    tokens[first_special : first_special + len(SPECIALS)] = SPECIALS
    return tokens


def _byte_alphabet() -> list[str]:
    """One printable character a byte, as byte-level BPE writes them."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def write_tokenizer(folder: Path, vocab: int, first_special: int, context: int) -> None:
    """tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json."""
    tokens = vocabulary(vocab, first_special)
    special = {first_special + i: name for i, name in enumerate(SPECIALS)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    end_of_text, _, end_of_turn = special
    _write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": i, "content": name, **flags} for i, name in special.items()],
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": True,  # a word that is in the vocabulary is its token
                "vocab": {token: i for i, token in enumerate(tokens) if i not in special},
                "merges": [],
            },
        },
    )
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": special[end_of_turn],
            "pad_token": special[end_of_text],
            "model_max_length": context,
            "chat_template": TEMPLATE,
        },
    )
    # Temperature 1 and nothing cut off: the head is made so that such sampling wanders like token_script.
    generation = {"eos_token_id": [end_of_turn, end_of_text], "do_sample": True, "temperature": 1.0}
    _write_json(folder / "generation_config.json", generation)
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1))
