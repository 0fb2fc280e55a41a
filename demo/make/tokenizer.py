"""Trains the byte-level BPE tokenizer and writes the tokenizer files of the checkpoint.

python tokenizer.py OUT_DIR [number of dialogues]
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from dialogue import TOOLS_HEAD, TOOLS_TAIL, dialogue, render

VOCAB = 4096
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
ADDED = [
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
]
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def chat_template() -> str:
    src = (Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8")

    def esc(s):
        return s.replace("\n", "\\n").replace("'", "\\'")

    return src.replace("@TOOLS_HEAD@", esc(TOOLS_HEAD)).replace("@TOOLS_TAIL@", esc(TOOLS_TAIL))


def train(texts) -> Tokenizer:
    tok = Tokenizer(models.BPE(byte_fallback=False, fuse_unk=False))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tok.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    n = VOCAB - len(SPECIAL) - len(ADDED)
    trainer = trainers.BpeTrainer(
        vocab_size=n, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[], show_progress=False
    )
    tok.train_from_iterator(texts, trainer)
    assert tok.get_vocab_size() == n, tok.get_vocab_size()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tok.add_tokens([AddedToken(t, special=False, normalized=False) for t in ADDED])
    assert tok.get_vocab_size() == VOCAB
    return tok


def write(tok: Tokenizer, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    tok.save(str(out / "tokenizer.json"))
    decoder = {
        str(tok.token_to_id(t)): {
            "content": t,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": t in SPECIAL,
        }
        for t in SPECIAL + ADDED
    }
    config = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "additional_special_tokens": SPECIAL[1:],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 4096,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (out / "tokenizer_config.json").write_text(
        json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (out / "chat_template.jinja").write_text(chat_template(), encoding="utf-8")
    eos = [tok.token_to_id("<|im_end|>"), tok.token_to_id("<|endoftext|>")]
    gen = {
        "bos_token_id": eos[1],
        "do_sample": True,
        "eos_token_id": eos,
        "pad_token_id": eos[1],
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
    }
    (out / "generation_config.json").write_text(json.dumps(gen, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the tokenizer and writes the tokenizer's files.")
    parser.add_argument("out", type=Path, help="folder of the checkpoint")
    parser.add_argument("--dialogues", type=int, default=40_000)
    args = parser.parse_args()
    rng = random.Random(7)

    def texts():
        for _ in range(args.dialogues):
            tools, messages, thinking, keep = dialogue(rng)
            text = render(messages, tools, thinking, keep)[0]
            for token in SPECIAL + ADDED:
                text = text.replace(token, "\n")
            yield text

    write(train(texts()), args.out)


if __name__ == "__main__":
    main()
