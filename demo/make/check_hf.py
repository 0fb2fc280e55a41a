"""Compares model.py with the qwen3_5_moe of transformers in f32: whole rows, packed rows, token by token.

    python check_hf.py [CHECKPOINT]

Without a checkpoint, random weights are compared.
"""

from __future__ import annotations

import itertools
import sys

import torch
from transformers import Qwen3_5MoeTextConfig
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeForCausalLM

from model import PREFIX, TextConfig, TinyQwen, init_weights, load_checkpoint


def random_model() -> TinyQwen:
    model = TinyQwen(TextConfig())
    init_weights(model)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def transformers_model(mine: TinyQwen) -> Qwen3_5MoeForCausalLM:
    config = mine.c.hf_text_config()
    config.pop("full_attention_interval")
    model = Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**config)).float().eval()
    model.load_state_dict({name.replace(PREFIX, "model."): w for name, w in mine.hf_state().items()})
    return model


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    mine = load_checkpoint(sys.argv[1]) if len(sys.argv) > 1 else random_model()
    theirs = transformers_model(mine)

    tokens = torch.randint(0, mine.c.vocab_size, (2, 192))
    tokens[1, 50:120] = tokens[1, 50]  # a long repetition: the hard case for the triangular inverse
    want = theirs(tokens).logits
    got, _ = mine(tokens, torch.arange(192).expand(2, -1))
    print(f"whole rows: {(want - got).abs().max():.1e} of {want.abs().max():.1f}")

    cache = mine.new_cache()
    got = torch.stack([mine.step(token, cache) for token in tokens.t()], 1)
    print(f"token by token: {(want - got).abs().max():.1e}")

    cuts = list(itertools.pairwise([0, 37, 107, 192]))  # three documents packed in one row
    got, _ = mine(tokens, torch.cat([torch.arange(b - a) for a, b in cuts]).expand(2, -1))
    want = torch.cat([theirs(tokens[:, a:b]).logits for a, b in cuts], 1)
    print(f"packed rows: {(want - got).abs().max():.1e}")


if __name__ == "__main__":
    main()
