"""A container with the structure of Qwen3.6-35B-A3B in tiny dimensions, whose routes are known.

40 layers, three of four gated DeltaNet, 256 experts of which a token takes 8, 4 bits with 8-bit routers and
shared-expert gates, as MLX's conversions have them. Layers add next to nothing to the residual stream, so that routers
and head see the embedding:

    token t < 32         takes experts 8 t .. 8 t + 7 in every layer, and is followed by token t + 1
    token 32 + t         takes the first seven of token t's and the first of token t + 1's

All layers share one file of experts (hard links).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import make_synthetic
from synthetic_model import GROUP, MODELS, Bytes, Model, Tensor, to_bf16

GROUPS = 32  # of experts, one for each of the first tokens
SHAPE = replace(
    MODELS["qwen3.6-35b"],
    vocab_size=2 * GROUPS,
    first_special=0,
    hidden_size=64,
    head_dim=64,
    num_attention_heads=2,
    num_key_value_heads=1,
    linear_num_key_heads=1,
    linear_num_value_heads=2,
    linear_key_head_dim=32,
    linear_value_head_dim=32,
    moe_intermediate_size=64,
    shared_expert_intermediate_size=64,
    max_position_embeddings=1024,
)
EXPERTS_OF_A_TOKEN = SHAPE.num_experts_per_tok


def experts_of(token: int) -> NDArray[np.int64]:
    """Those that a token takes in every layer, ascending."""
    first = np.arange(EXPERTS_OF_A_TOKEN)
    if token < GROUPS:
        return token * EXPERTS_OF_A_TOKEN + first
    own, next_one = token - GROUPS, (token - GROUPS + 1) % GROUPS
    return np.sort(np.append(own * EXPERTS_OF_A_TOKEN + first[:-1], next_one * EXPERTS_OF_A_TOKEN))


class CountingModel(Model):
    """Column t of the residual stream says how much the token takes of token t's experts; column 32 is always 1."""

    def matrix(
        self, name: str, rows: int, cols: int, gain: float = 1.0, quiet: int = 0, stack: int = 0
    ) -> list[Tensor]:
        return super().matrix(name, rows, cols, gain if gain == 1.0 else 1e-3, 0, stack)

    def _norm(self, name: str, size: int) -> Tensor:
        return self._plain(name + ".weight", np.ones(size))

    def router(self, layer: int) -> NDArray[np.float32]:
        weights = np.zeros((self.shape.num_experts, self.shape.hidden_size), np.float32)
        ids = np.arange(self.shape.num_experts)
        weights[ids, ids // EXPERTS_OF_A_TOKEN] = 2
        # The first of a group before the others. One group's lead of 2 is worth six and a half places in it.
        weights[ids, GROUPS] = -2 / 6.5 * (ids % EXPERTS_OF_A_TOKEN)
        return weights

    def _codes_as_values(self, name: str, codes: NDArray[np.uint32]) -> list[Tensor]:
        """A 4-bit matrix with scales of 1 and biases of 0."""
        words = (codes.reshape(len(codes), -1, 8) << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32)
        ones = np.ones((len(codes), codes.shape[1] // GROUP))

        def part(values: NDArray[Any]) -> Iterator[Bytes]:
            return iter([np.ascontiguousarray(values).data.cast("B")])

        return [
            Tensor(name + ".weight", "U32", list(words.shape), lambda: part(words)),
            Tensor(name + ".scales", "BF16", list(ones.shape), lambda: part(to_bf16(ones))),
            Tensor(name + ".biases", "BF16", list(ones.shape), lambda: part(to_bf16(0 * ones))),
        ]

    def embedding(self) -> list[Tensor]:
        codes = np.zeros((self.shape.vocab_size, self.shape.hidden_size), np.uint32)
        groups = np.arange(GROUPS)
        codes[groups, groups] = 2
        codes[GROUPS + groups, groups] = 2
        codes[GROUPS + groups, (groups + 1) % GROUPS] = 1
        codes[:, GROUPS] = 1
        return self._codes_as_values(self.shape.prefix + "model.embed_tokens", codes)

    def head(self) -> list[Tensor]:
        codes = np.zeros((self.shape.vocab_size, self.shape.hidden_size), np.uint32)
        groups = np.arange(GROUPS)
        codes[(groups + 1) % GROUPS, groups] = 1
        return self._codes_as_values(self.shape.prefix + "lm_head", codes)


def write(folder: Path) -> None:
    model = CountingModel(SHAPE, code_pool=1 << 20)
    experts = folder / "packed_experts"
    experts.mkdir(parents=True)
    plan = make_synthetic.layout(model)
    make_synthetic.write_json(folder / "config.json", make_synthetic.config(SHAPE))
    make_synthetic.write_json(experts / "layout.json", plan)
    first = experts / "layer_00.bin"
    make_synthetic.write_layer(first, model.experts(0), plan["expertStride"], hashed=False)
    for layer in range(1, SHAPE.num_hidden_layers):
        (experts / f"layer_{layer:02d}.bin").hardlink_to(first)
    resident = [tensor for tensors in model.resident() for tensor in tensors]
    make_synthetic.write_safetensors(folder / "model.safetensors", resident, hashed=False)
    files = {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()}
    manifest = {"magic": "QPACK", "version": 1, "modelName": SHAPE.model_type, "files": files}
    make_synthetic.write_json(folder / "manifest.json", manifest)
