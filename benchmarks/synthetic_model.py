"""Weights of full-shape synthetic models: the exact shapes of Qwen3.6-35B-A3B and Qwen3-Next-80B-A3B, random values.

Values are made to be written fast: codes and scales are slices of pools of random numbers made once, at places that
differ from tensor to tensor and expert to expert.

Routing is made to look like that of text. Some columns of the residual stream hold what the embedding put there, since
the rows of the layers that would write to them are almost silent:

    columns      what the embedding puts there      what a router reads from it
    0 .. 63      a constant                         popularity of its experts, the same for every token
    64 .. 191    a code of the token's topic        experts that the topic favours
    192 .. 319   a code of the token's passage      experts that the passage favours
    320 .. 383   a code of the token's theme        experts that the theme favours
    the rest     noise, and what layers add         the token's own choice

The head reads topic, passage and theme too, so that text sampled at temperature 1 stays with them for a while.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthetic_text import Topics

GROUP = 64
ROUTER_BITS = 8
CONSTANT, TOPIC, PASSAGE, THEME = slice(0, 64), slice(64, 192), slice(192, 320), slice(320, 384)
QUIET = 384  # columns that layers leave alone
PIECE = 4096  # rows of embedding and head made at a time
# Gain of the matrices that write to the residual stream, and the mean square that a layer of growth 1 adds to it.
MIXER_GAIN, ATTENTION_GAIN, MLP_GAIN = 0.55, 1.2, 0.95
LAYER_VARIANCE = 0.21

Bytes = memoryview
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Shape:
    """Names follow config.json."""

    model_type: str
    num_hidden_layers: int
    num_experts: int
    num_experts_per_tok: int
    vocab_size: int
    first_special: int
    hidden_size: int = 2048
    head_dim: int = 256
    num_attention_heads: int = 16
    num_key_value_heads: int = 2
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_conv_kernel_dim: int = 4
    full_attention_interval: int = 4
    moe_intermediate_size: int = 512
    shared_expert_intermediate_size: int = 512
    intermediate_size: int = 5120
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 262144
    rope_theta: int = 10_000_000
    partial_rotary_factor: float = 0.25

    @property
    def prefix(self) -> str:
        """Multimodal checkpoints put the text model under a name of its own."""
        return "language_model." if self.model_type == "qwen3_5_moe" else ""

    @property
    def linear_layers(self) -> list[bool]:
        return [(layer + 1) % self.full_attention_interval != 0 for layer in range(self.num_hidden_layers)]


@dataclass(frozen=True)
class Routing:
    """Standard deviations of what makes up a router's logits (see the table above)."""

    popularity: float
    topic: float
    passage: float
    theme: float
    token: float


MODELS = {
    "qwen3.6-35b": Shape("qwen3_5_moe", 40, 256, 8, vocab_size=248320, first_special=248044),
    "qwen3-next-80b": Shape("qwen3_next", 48, 512, 10, vocab_size=151936, first_special=151643),
}
ROUTING = {"qwen3_5_moe": Routing(0.7, 0.75, 0.7, 0.6, 0.85), "qwen3_next": Routing(0.9, 0.5, 0.45, 0.6, 0.9)}


@dataclass
class Tensor:
    """A stored tensor; `pieces` gives its bytes in order."""

    name: str
    dtype: str
    shape: list[int]
    pieces: Callable[[], Iterator[Bytes]]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * {"U32": 4, "F32": 4, "BF16": 2}[self.dtype]


def to_bf16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> Floats:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _bytes(values: NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(values).data.cast("B")


# The sixteen codes a random nibble is turned into: roughly normal about 8.
_CODES = np.array([2, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 12, 14], np.uint8)
_CODE_STD = float(np.std(_CODES.astype(np.float64)))
_NIBBLES = np.arange(256, dtype=np.uint8)
_CODE_BYTES = (_CODES[_NIBBLES & 15] | _CODES[_NIBBLES >> 4] << 4).tobytes()


@dataclass
class Scales:
    """A pool of bfloat16 scales, and the biases -8 * scale that put a weight's zero at code 8."""

    scales: Bytes
    biases: Bytes


@dataclass
class Model:
    shape: Shape
    seed: int = 1
    skew: float = 1.0  # scales the routers' popularity
    topics: Topics = field(default_factory=Topics)
    code_pool: int = 64 << 20  # bytes
    _scale_pools: dict[float, Scales] = field(default_factory=dict)

    def random(self, *key: object) -> np.random.Generator:
        """A generator of its own for everything that has a name."""
        digest = hashlib.blake2b(repr((self.seed, key)).encode(), digest_size=16).digest()
        return np.random.Generator(np.random.SFC64(int.from_bytes(digest, "little")))

    # Pools

    @cached_property
    def _codes(self) -> Bytes:
        return memoryview(self.random("codes").bytes(self.code_pool).translate(_CODE_BYTES))

    def _scales(self, std: float) -> Scales:
        """Scales with which codes from the pool are weights of this standard deviation, give or take a fifth."""
        if std not in self._scale_pools:
            spread = self.random("scales").uniform(0.8, 1.2, 1 << 20)
            scales = to_bf16(spread * (std / _CODE_STD))
            self._scale_pools[std] = Scales(_bytes(scales), _bytes(to_bf16(-8 * from_bf16(scales))))
        return self._scale_pools[std]

    def matrix(
        self, name: str, rows: int, cols: int, gain: float = 1.0, quiet: int = 0, stack: int = 0
    ) -> list[Tensor]:
        """A 4-bit matrix, or a stack of them, with outputs `gain` times as large as its inputs.

        The first `quiet` rows give almost nothing.
        """
        random = self.random(name)
        std = gain / math.sqrt(cols)
        loud, silent = self._scales(std), self._scales(std / 256)
        weight_bytes, scale_bytes = rows * cols // 2, rows * cols // GROUP * 2
        quiet_bytes = quiet * cols // GROUP * 2
        count = max(1, stack)
        code_at = 32 * random.integers(0, (len(self._codes) - weight_bytes) // 32, count)
        scale_at = 2 * random.integers(0, (len(loud.scales) - scale_bytes) // 2, count)

        def weights() -> Iterator[Bytes]:
            for at in code_at.tolist():
                yield self._codes[at : at + weight_bytes]

        def parts(quiet_pool: Bytes, pool: Bytes) -> Callable[[], Iterator[Bytes]]:
            def pieces() -> Iterator[Bytes]:
                for at in scale_at.tolist():
                    if quiet:
                        yield quiet_pool[at : at + quiet_bytes]
                    yield pool[at + quiet_bytes : at + scale_bytes]

            return pieces

        lead = [stack] if stack else []
        return [
            Tensor(name + ".weight", "U32", [*lead, rows, cols // 8], weights),
            Tensor(name + ".scales", "BF16", [*lead, rows, cols // GROUP], parts(silent.scales, loud.scales)),
            Tensor(name + ".biases", "BF16", [*lead, rows, cols // GROUP], parts(silent.biases, loud.biases)),
        ]

    # Embedding and head

    def _code(self, kind: str, count: int, columns: slice) -> NDArray[np.int8]:
        """A code of plus and minus one for each of `count` topics, passages or themes."""
        size = columns.stop - columns.start
        return (2 * self.random(kind).integers(0, 2, (count, size), np.int8) - 1).astype(np.int8)

    def _signs(self, ids: NDArray[np.int64]) -> NDArray[np.int8]:
        """[ids, QUIET] what the embedding puts into the quiet columns."""
        passage = self.topics.passage_of(ids)
        topic = passage // self.topics.passages
        theme = topic * self.topics.themes + self.topics.theme_of(ids)
        constant = self._code("constant", 1, CONSTANT)
        return np.concatenate(
            [
                np.broadcast_to(constant, (len(ids), constant.shape[1])),
                self._code("topic", self.topics.topics, TOPIC)[topic],
                self._code("passage", self.topics.all_passages, PASSAGE)[passage],
                self._code("theme", self.topics.topics * self.topics.themes, THEME)[theme],
            ],
            axis=1,
        )

    def _vocabulary_matrix(self, name: str, std: float, quiet: dict[int, float]) -> list[Tensor]:
        """[vocab, hidden]: signs times a value in the quiet columns (by first column), noise of `std` in the others."""
        vocab, hidden = self.shape.vocab_size, self.shape.hidden_size
        noise = self._scales(std)
        firsts = sorted(quiet)
        value = np.empty(QUIET // GROUP, np.float32)
        for first in firsts:
            value[first // GROUP :] = quiet[first]
        quiet_scales = to_bf16(value / 4)  # a sign is code 8 + 4 or 8 - 4
        quiet_biases = to_bf16(-8 * from_bf16(quiet_scales))
        row_scales = hidden // GROUP

        def places(rows: int, length: int, step: int, pool: int, piece: int) -> NDArray[np.int64]:
            starts = self.random(name, step, piece).integers(0, (pool - length) // step, rows) * step
            return np.asarray(starts[:, None] + np.arange(length))

        def weights() -> Iterator[Bytes]:
            codes = np.frombuffer(self._codes, np.uint8)
            for piece in range(0, vocab, PIECE):
                ids = np.arange(piece, min(piece + PIECE, vocab))
                signs = (8 + 4 * self._signs(ids)).astype(np.uint8)
                rows = codes[places(len(ids), hidden // 2, 32, len(codes), piece)]
                rows[:, : QUIET // 2] = signs[:, 0::2] | signs[:, 1::2] << 4
                yield _bytes(rows)

        def parts(pool: Bytes, quiet_part: NDArray[np.uint16]) -> Callable[[], Iterator[Bytes]]:
            def pieces() -> Iterator[Bytes]:
                values = np.frombuffer(pool, np.uint16)
                for piece in range(0, vocab, PIECE):
                    rows = values[places(min(PIECE, vocab - piece), row_scales, 1, len(values), piece)]
                    rows[:, : len(quiet_part)] = quiet_part
                    yield _bytes(rows)

            return pieces

        return [
            Tensor(name + ".weight", "U32", [vocab, hidden // 8], weights),
            Tensor(name + ".scales", "BF16", [vocab, row_scales], parts(noise.scales, quiet_scales)),
            Tensor(name + ".biases", "BF16", [vocab, row_scales], parts(noise.biases, quiet_biases)),
        ]

    def embedding(self) -> list[Tensor]:
        ones = {columns.start: 1.0 for columns in (CONSTANT, TOPIC, PASSAGE, THEME)}
        return self._vocabulary_matrix(self.shape.prefix + "model.embed_tokens", 1.0, ones)

    def head(self) -> list[Tensor]:
        """Logits of standard deviation 2, and on top of that what keeps sampled text on its topic.

        Of the probability, 1 - 1/passage_tokens should fall on the passage, 1/passage_tokens - 1/topic_tokens on other
        passages of the topic, 1/topic_tokens on the rest, and a theme should stay with 1 - 1/theme_tokens.
        """
        t = self.topics
        elsewhere, nearby = 1 / t.topic_tokens, 1 / t.passage_tokens - 1 / t.topic_tokens
        here = 1 - 1 / t.passage_tokens
        topic = math.log(nearby / elsewhere * (t.topics - 1) * t.passages / (t.passages - 1))
        passage = math.log(here / nearby * (t.passages - 1))
        theme = math.log((t.theme_tokens - 1) * (t.themes - 1))
        rms = residual_rms(self.shape.num_hidden_layers)

        def value(gain: float, columns: slice) -> float:
            return gain * rms / float(columns.stop - columns.start)

        quiet = {0: 1e-3, TOPIC.start: value(topic, TOPIC), PASSAGE.start: value(passage, PASSAGE)}
        quiet[THEME.start] = value(theme, THEME)
        return self._vocabulary_matrix(self.shape.prefix + "lm_head", 2 / math.sqrt(self.shape.hidden_size), quiet)

    # Layers

    def _affine8(self, name: str, values: Floats) -> list[Tensor]:
        """An 8-bit matrix from its values."""
        rows, cols = values.shape
        groups = values.reshape(rows, -1, GROUP)
        low, high = groups.min(-1), groups.max(-1)
        scales = to_bf16(np.maximum((high - low) / 255, 1e-8))
        biases = to_bf16(low)
        codes = np.rint((groups - from_bf16(biases)[..., None]) / from_bf16(scales)[..., None])
        packed = np.clip(codes, 0, 255).astype(np.uint8)
        return [
            Tensor(name + ".weight", "U32", [rows, cols // 4], lambda: iter([_bytes(packed)])),
            Tensor(name + ".scales", "BF16", [rows, cols // GROUP], lambda: iter([_bytes(scales)])),
            Tensor(name + ".biases", "BF16", [rows, cols // GROUP], lambda: iter([_bytes(biases)])),
        ]

    def _plain(self, name: str, values: NDArray[np.float64], dtype: str = "BF16") -> Tensor:
        stored = to_bf16(values) if dtype == "BF16" else values.astype(np.float32)
        return Tensor(name, dtype, list(values.shape), lambda: iter([_bytes(stored)]))

    def _norm(self, name: str, size: int) -> Tensor:
        return self._plain(name + ".weight", 1 + 0.05 * self.random(name).standard_normal(size))

    def router(self, layer: int) -> Floats:
        """[experts, hidden] such that its logits have the parts that ROUTING names."""
        routing, hidden = ROUTING[self.shape.model_type], self.shape.hidden_size
        rms = residual_rms(layer + 0.5)
        weights = self.random("router", layer).standard_normal((self.shape.num_experts, hidden), np.float32)
        token_rms = math.sqrt((rms**2 * hidden - QUIET) / (hidden - QUIET)) / rms
        for columns, std in ((TOPIC, routing.topic), (PASSAGE, routing.passage), (THEME, routing.theme)):
            weights[:, columns] *= std * rms / math.sqrt(columns.stop - columns.start)
        weights[:, QUIET:] *= routing.token / math.sqrt(hidden - QUIET) / token_rms
        popularity = weights[:, :1] * routing.popularity * self.skew
        weights[:, CONSTANT] = popularity * self._code("constant", 1, CONSTANT) * (rms / CONSTANT.stop)
        return weights

    def layer(self, layer: int) -> list[Tensor]:
        """What a layer keeps in memory: everything but its routed experts."""
        s = self.shape
        hidden, head = s.hidden_size, s.head_dim
        at = f"{s.prefix}model.layers.{layer}."
        tensors = [self._norm(at + "input_layernorm", hidden), self._norm(at + "post_attention_layernorm", hidden)]
        if s.linear_layers[layer]:
            tensors += self._delta_net(at + "linear_attn.", layer)
        else:
            attention = at + "self_attn."
            width = s.num_attention_heads * head
            tensors += self.matrix(attention + "q_proj", 2 * width, hidden)
            tensors += self.matrix(attention + "k_proj", s.num_key_value_heads * head, hidden)
            tensors += self.matrix(attention + "v_proj", s.num_key_value_heads * head, hidden)
            gain = ATTENTION_GAIN * growth(layer)
            tensors += self.matrix(attention + "o_proj", hidden, width, gain=gain, quiet=QUIET)
            tensors += [self._norm(attention + "q_norm", head), self._norm(attention + "k_norm", head)]
        tensors += self._affine8(at + "mlp.gate", self.router(layer))
        shared, width = at + "mlp.shared_expert", s.shared_expert_intermediate_size
        tensors += self.matrix(shared + ".gate_proj", width, hidden)
        tensors += self.matrix(shared + ".up_proj", width, hidden)
        tensors += self.matrix(shared + ".down_proj", hidden, width, gain=MLP_GAIN * growth(layer), quiet=QUIET)
        gate = self.random(shared + "_gate").standard_normal((1, hidden), np.float32) / math.sqrt(hidden)
        return tensors + self._affine8(shared + "_gate", gate.astype(np.float32))

    def _delta_net(self, at: str, layer: int) -> list[Tensor]:
        s = self.shape
        keys = s.linear_num_key_heads * s.linear_key_head_dim
        heads = s.linear_num_value_heads
        values = heads * s.linear_value_head_dim
        random = self.random(at)
        if s.model_type == "qwen3_next":
            projections = {"in_proj_qkvz": 2 * keys + 2 * values, "in_proj_ba": 2 * heads}
        else:
            projections = {"in_proj_qkv": 2 * keys + values, "in_proj_z": values}
            projections |= {"in_proj_b": heads, "in_proj_a": heads}
        tensors = []
        for name, rows in projections.items():
            tensors += self.matrix(at + name, rows, s.hidden_size)
        convolution = 0.5 * random.standard_normal((2 * keys + values, s.linear_conv_kernel_dim, 1))
        # exp(A_log) log-uniform: heads that keep 0.999 of their state a token, heads that keep 0.4, as trained ones do.
        rates = random.uniform(math.log(0.001), math.log(0.6), heads)
        return [
            *tensors,
            *self.matrix(at + "out_proj", s.hidden_size, values, gain=MIXER_GAIN * growth(layer), quiet=QUIET),
            self._plain(at + "conv1d.weight", convolution),
            self._plain(at + "A_log", rates, "F32"),
            self._plain(at + "dt_bias", 1 + 0.1 * random.standard_normal(heads)),
            self._norm(at + "norm", s.linear_value_head_dim),
        ]

    def experts(self, layer: int) -> list[Tensor]:
        """The routed experts of a layer, stacked. Each piece is one expert's, or part of one."""
        s = self.shape
        at = f"{s.prefix}model.layers.{layer}.mlp.switch_mlp."
        width, hidden, stack = s.moe_intermediate_size, s.hidden_size, s.num_experts
        return [
            *self.matrix(at + "gate_proj", width, hidden, stack=stack),
            *self.matrix(at + "up_proj", width, hidden, stack=stack),
            *self.matrix(at + "down_proj", hidden, width, gain=MLP_GAIN * growth(layer), quiet=QUIET, stack=stack),
        ]

    def resident(self) -> Iterator[list[Tensor]]:
        """Everything but the routed experts, a few tensors at a time."""
        yield self.embedding()
        for layer in range(self.shape.num_hidden_layers):
            yield self.layer(layer)
        yield [self._norm(self.shape.prefix + "model.norm", self.shape.hidden_size)]
        yield self.head()


def growth(layer: int) -> float:
    """How much larger the outputs of a layer are than those of the first: as the residual stream grows, so do they."""
    return float(1.3 ** (layer // 4))


def residual_rms(layer: float) -> float:
    """Root mean square of the residual stream before a layer, fitted to runs of these models."""
    added = sum(growth(before) ** 2 for before in range(math.floor(layer)))
    added += (layer % 1) * growth(math.floor(layer)) ** 2
    return math.sqrt(1.0 + LAYER_VARIANCE * added)


def shape_of(model: str, layers: int = 0, experts: int = 0) -> Shape:
    shape = MODELS[model]
    return replace(shape, num_hidden_layers=layers or shape.num_hidden_layers, num_experts=experts or shape.num_experts)


def config(shape: Shape) -> dict[str, Any]:
    """config.json, as an MLX conversion has it."""
    skip = {"model_type", "first_special", "rope_theta", "partial_rotary_factor"}
    text = {key: value for key, value in shape.__dict__.items() if key not in skip}
    rope: dict[str, Any] = {"rope_theta": shape.rope_theta, "partial_rotary_factor": shape.partial_rotary_factor}
    eos = shape.first_special + 2
    text |= {"hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False, "norm_topk_prob": True}
    quantization: dict[str, Any] = {"group_size": GROUP, "bits": 4, "mode": "affine"}
    for layer in range(shape.num_hidden_layers):
        for gate in ("gate", "shared_expert_gate"):
            name = f"{shape.prefix}model.layers.{layer}.mlp.{gate}"
            quantization[name] = {"group_size": GROUP, "bits": ROUTER_BITS}
    top: dict[str, Any] = {"model_type": shape.model_type, "eos_token_id": eos, "quantization": quantization}
    if shape.model_type == "qwen3_next":
        extra = {"architectures": ["Qwen3NextForCausalLM"], "decoder_sparse_step": 1, "mlp_only_layers": []}
        return text | rope | extra | top
    kinds = ["linear_attention" if linear else "full_attention" for linear in shape.linear_layers]
    rope |= {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [11, 11, 10]}
    text |= {"model_type": "qwen3_5_moe_text", "attn_output_gate": True, "layer_types": kinds, "rope_parameters": rope}
    text |= {"eos_token_id": eos, "dtype": "bfloat16", "mamba_ssm_dtype": "float32"}
    top |= {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "tie_word_embeddings": False}
    return top | {"text_config": text}
