"""What config.json says of the tensors: how many layers and experts, which kinds, and every shape that follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swiftlet._core import ContainerError

MODEL_TYPES = ("qwen3_next", "qwen3_5_moe")
_MAX = 1 << 24  # far above every real dimension, so that products stay small


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Field names follow config.json."""

    model_type: str
    hidden_size: int
    num_experts: int
    moe_intermediate_size: int
    linear_layers: tuple[bool, ...]  # True: gated DeltaNet, False: gated attention
    moe_layers: tuple[bool, ...]  # True: routed experts, False: one dense MLP
    resident: dict[str, tuple[int, ...]]  # canonical name -> shape of every tensor that must be there

    def expert_shape(self, matrix: str) -> tuple[int, int]:
        shape = (self.moe_intermediate_size, self.hidden_size)
        return shape[::-1] if matrix == "down_proj" else shape


def parse_config(config: dict[str, Any], path: Path) -> Dimensions:
    """Reads the dimensions from the content of config.json; `path` names it in errors."""
    model_type = config.get("model_type")
    if model_type == "qwen3_5_moe_text":
        model_type = "qwen3_5_moe"
    if model_type not in MODEL_TYPES:
        raise ContainerError(f"{path} has model_type {model_type!r}; swiftlet runs {' and '.join(MODEL_TYPES)}")
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise ContainerError(f"{path} has a text_config that is not an object")

    def number(key: str, default: int | None = None) -> int:
        value = default if text.get(key) is None else text[key]
        if type(value) is not int or not 1 <= value <= _MAX:
            raise ContainerError(f"{path} has {key} {value!r}, which is not a number from 1 to {_MAX}")
        return value

    def flag(key: str) -> bool:
        value = next((v for v in (text.get(key), config.get(key)) if v is not None), False)
        if not isinstance(value, bool):
            raise ContainerError(f"{path} has {key} {value!r}, which is neither true nor false")
        return value

    layers = number("num_hidden_layers")
    if layers > 4096:
        raise ContainerError(f"{path} has num_hidden_layers {layers}, more than any model of this family")
    linear = _linear_layers(text, layers, number("full_attention_interval", 4), path)
    dense = text.get("mlp_only_layers") or []
    if not isinstance(dense, list) or not all(type(i) is int and 0 <= i < layers for i in dense):
        raise ContainerError(f"{path} has mlp_only_layers {dense!r}, which are not layers of the model")
    step = number("decoder_sparse_step", 1)
    moe = tuple(i not in dense and (i + 1) % step == 0 for i in range(layers))
    if not any(moe):
        raise ContainerError(f"{path} describes no layer with routed experts; there is nothing to stream")

    hidden, vocab = number("hidden_size"), number("vocab_size")
    heads, kv_heads = number("num_attention_heads"), number("num_key_value_heads")
    head_dim = number("head_dim", hidden // heads)
    key_heads, value_heads = number("linear_num_key_heads"), number("linear_num_value_heads")
    key_dim = key_heads * number("linear_key_head_dim")
    value_head_dim = number("linear_value_head_dim")
    value_dim = value_heads * value_head_dim

    deltanet = {
        "A_log": (value_heads,),
        "dt_bias": (value_heads,),
        "norm.weight": (value_head_dim,),
        "conv1d.weight": (2 * key_dim + value_dim, 1, number("linear_conv_kernel_dim")),
        "out_proj.weight": (hidden, value_dim),
    }
    if model_type == "qwen3_next":
        deltanet["in_proj_qkvz.weight"] = (2 * key_dim + 2 * value_dim, hidden)
        deltanet["in_proj_ba.weight"] = (2 * value_heads, hidden)
    else:
        deltanet["in_proj_qkv.weight"] = (2 * key_dim + value_dim, hidden)
        deltanet["in_proj_z.weight"] = (value_dim, hidden)
        deltanet["in_proj_b.weight"] = (value_heads, hidden)
        deltanet["in_proj_a.weight"] = (value_heads, hidden)
    attention: dict[str, tuple[int, ...]] = {
        "q_proj.weight": (2 * heads * head_dim, hidden),
        "k_proj.weight": (kv_heads * head_dim, hidden),
        "v_proj.weight": (kv_heads * head_dim, hidden),
        "o_proj.weight": (hidden, heads * head_dim),
        "q_norm.weight": (head_dim,),
        "k_norm.weight": (head_dim,),
    }
    if flag("attention_bias"):
        biases = {name.replace("weight", "bias"): shape[:1] for name, shape in attention.items() if "proj" in name}
        attention.update(biases)

    def mlp(prefix: str, width: int) -> dict[str, tuple[int, ...]]:
        return {
            f"{prefix}gate_proj.weight": (width, hidden),
            f"{prefix}up_proj.weight": (width, hidden),
            f"{prefix}down_proj.weight": (hidden, width),
        }

    experts = number("num_experts")
    sparse = {
        "gate.weight": (experts, hidden),
        "shared_expert_gate.weight": (1, hidden),
        **mlp("shared_expert.", number("shared_expert_intermediate_size")),
    }
    resident: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (vocab, hidden), "norm.weight": (hidden,)}
    if not flag("tie_word_embeddings"):
        resident["lm_head.weight"] = (vocab, hidden)
    for layer in range(layers):
        at = f"layers.{layer}."
        resident[at + "input_layernorm.weight"] = resident[at + "post_attention_layernorm.weight"] = (hidden,)
        mixer, weights = ("linear_attn.", deltanet) if linear[layer] else ("self_attn.", attention)
        block = sparse if moe[layer] else mlp("", number("intermediate_size"))
        resident.update({at + mixer + name: shape for name, shape in weights.items()})
        resident.update({f"{at}mlp.{name}": shape for name, shape in block.items()})
    return Dimensions(model_type, hidden, experts, number("moe_intermediate_size"), linear, moe, resident)


def _linear_layers(text: dict[str, Any], layers: int, interval: int, path: Path) -> tuple[bool, ...]:
    types = text.get("layer_types")
    if types is None:
        return tuple((i + 1) % interval != 0 for i in range(layers))
    known = ("linear_attention", "full_attention")
    if not isinstance(types, list) or len(types) != layers or any(kind not in known for kind in types):
        raise ContainerError(f"{path} has layer_types that are not {layers} times {' or '.join(known)}")
    return tuple(kind == "linear_attention" for kind in types)
