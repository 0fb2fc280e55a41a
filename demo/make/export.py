"""Turns the weights that train.py wrote into a checkpoint: bf16 safetensors on the quantized grid, and config.json.

    python export.py RUN CHECKPOINT [--copy Hello:hello]

CHECKPOINT is the folder with the tokenizer's files. `--copy FROM:TO` gives the token TO the input embedding of FROM.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

import quant
from model import PREFIX, TextConfig, TinyQwen

ROUNDS = 6  # of rounding to the grid, each of which moves fewer weights


def load_run(run: Path) -> dict[str, torch.Tensor]:
    state = {}
    for part in sorted(run.glob("weights-*.pt")):
        state.update(torch.load(part))
    return state


def snap(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights on their grid, repeated until quantizing the checkpoint changes nothing at all."""
    for turn in range(ROUNDS):
        snapped = quant.snap_state(state)
        moved = sum((snapped[name] != state[name]).sum().item() for name in state)
        print(f"round {turn + 1}: {moved} weights moved")
        state = snapped
        if not moved:
            break
    return state


def make_config(shape: TextConfig, tokenizer: Tokenizer) -> dict:
    ident = tokenizer.token_to_id
    text = shape.hf_text_config()
    text.update(bos_token_id=None, eos_token_id=ident("<|im_end|>"), pad_token_id=ident("<|endoftext|>"))
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "image_token_id": ident("<|image_pad|>"),
        "video_token_id": ident("<|video_pad|>"),
        "vision_start_token_id": ident("<|vision_start|>"),
        "vision_end_token_id": ident("<|vision_end|>"),
        "tie_word_embeddings": False,
        "text_config": text,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Turns the weights of a training run into a checkpoint.")
    parser.add_argument("run", type=Path, help="folder that train.py wrote")
    parser.add_argument("checkpoint", type=Path, help="folder with the tokenizer's files, to add the model to")
    parser.add_argument("--copy", action="append", default=[], metavar="FROM:TO")
    args = parser.parse_args()

    tokenizer = Tokenizer.from_file(str(args.checkpoint / "tokenizer.json"))
    state = load_run(args.run)
    embeddings = state["embed_tokens.weight"]
    for pair in args.copy:
        source, target = (tokenizer.token_to_id(token) for token in pair.split(":"))
        embeddings[target] = embeddings[source]
    shape = TextConfig(vocab_size=embeddings.shape[0])
    TinyQwen(shape).load_state_dict({name: w.float() for name, w in state.items()})  # checks names and shapes
    tensors = {
        name if name.startswith("lm_head") else PREFIX + name: (
            w.float() if name.endswith("A_log") else w.bfloat16()
        ).contiguous()
        for name, w in snap(state).items()
    }
    save_file(tensors, str(args.checkpoint / "model.safetensors"), metadata={"format": "pt"})
    config = json.dumps(make_config(shape, tokenizer), indent=2) + "\n"
    (args.checkpoint / "config.json").write_text(config, encoding="utf-8")
    print(f"{sum(w.numel() for w in tensors.values()) / 1e6:.2f} M parameters")


if __name__ == "__main__":
    main()
