"""Runs the first layers of a 4-bit .qpack in numpy, float32, and reports how its routers choose.

Reads the bytes of the container and shares no code with the engine or with what wrote the container: a check of both.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policy_simulator import SHARES, LfuDecay, Lru, Pool, replay
from traces import Chunk, Trace, overlap

Floats = NDArray[np.float32]

DTYPES = {"U32": np.uint32, "F32": np.float32, "BF16": np.uint16, "F16": np.float16}
NIBBLES = np.stack([np.arange(256) & 15, np.arange(256) >> 4], 1).astype(np.float32)


def floats(stored: NDArray[Any]) -> Floats:
    """Stored numbers as float32; 16-bit integers are the bits of a bfloat16."""
    if stored.dtype == np.uint16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)


def dequantize(weight: NDArray[np.uint32], scales: NDArray[Any], biases: NDArray[Any], bits: int) -> Floats:
    """[rows, cols] of an affine matrix of 4-bit codes, the first of a byte in its low half, or of 8-bit codes."""
    packed = weight.view(np.uint8)
    codes = NIBBLES[packed] if bits == 4 else packed.astype(np.float32)
    grouped = codes.reshape(*scales.shape, -1)
    return (grouped * floats(scales)[..., None] + floats(biases)[..., None]).reshape(len(weight), -1)


class Container:
    """The tensors of a .qpack by their name without prefix, read when asked for."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        self.family = config["model_type"]
        self.config: dict[str, Any] = config | config.get("text_config", {})
        self._quantization = config["quantization"]
        self._folder = folder
        self._prefix = "language_model." if self.family == "qwen3_5_moe" else ""
        path = folder / "model.safetensors"
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            self._entries = json.loads(file.read(size))
        self._resident = np.memmap(path, np.uint8, "r", offset=8 + size)
        self._layout = json.loads((folder / "packed_experts/layout.json").read_text())

    def __getitem__(self, name: str) -> NDArray[Any]:
        entry = self._entries[self._prefix + name]
        begin, end = entry["data_offsets"]
        return self._resident[begin:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])

    def vector(self, name: str) -> Floats:
        return floats(self[name])

    def matrix(self, name: str, rows: slice | NDArray[np.int64] = slice(None)) -> Floats:
        """[rows, cols] of a quantized matrix."""
        bits = self._quantization.get(self._prefix + name, self._quantization)["bits"]
        weight, scales, biases = (np.asarray(self[f"{name}.{part}"][rows]) for part in ("weight", "scales", "biases"))
        return dequantize(weight, scales, biases, bits)

    def expert(self, layer: int, expert: int) -> dict[str, Floats]:
        """gate_proj, up_proj and down_proj of a routed expert."""
        stride = self._layout["expertStride"]
        path = self._folder / f"packed_experts/layer_{layer:02d}.bin"
        blob = np.fromfile(path, np.uint8, stride, offset=stride * expert)
        parts = {}
        for section in self._layout["sections"]:
            data = blob[section["offset"] : section["offset"] + section["size"]]
            parts[section["name"]] = data.view(DTYPES[section["dtype"]]).reshape(section["shape"])
        return {
            name: dequantize(parts[name + ".weight"], parts[name + ".scales"], parts[name + ".biases"], 4)
            for name in ("gate_proj", "up_proj", "down_proj")
        }


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -80, 80))), np.float32)


def silu(x: Floats) -> Floats:
    return x * sigmoid(x)


def rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    return np.asarray(x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * weight, np.float32)


@dataclass
class Routes:
    """Of one layer: experts [T, k] of each token, and what the router would have said of the layer before's input."""

    experts: NDArray[np.int64]
    logits: Floats  # [T, experts]
    guessed: Floats


class Forward:
    """A prefill of T tokens from the empty state; `x` [T, hidden] is the residual stream after `layer` layers."""

    def __init__(self, container: Container, tokens: list[int]) -> None:
        self.weights = container
        self.config = container.config
        self.eps = self.config["rms_norm_eps"]
        self.x = container.matrix("model.embed_tokens", np.array(tokens))
        self.layer = 0

    def _normed(self, x: Floats, name: str) -> Floats:
        return rms_norm(x, self.weights.vector(name + ".weight"), self.eps)

    def _project(self, x: Floats, name: str) -> Floats:
        return x @ self.weights.matrix(name).T

    def logits(self) -> Floats:
        """[vocab] of the last token."""
        return self._project(self._normed(self.x[-1], "model.norm"), "lm_head")

    def step(self) -> Routes:
        """One layer."""
        at = f"model.layers.{self.layer}."
        before = self.x
        h = self._normed(before, at + "input_layernorm")
        linear = (self.layer + 1) % self.config["full_attention_interval"] != 0
        self.x = before + (self._delta_net(h, at + "linear_attn.") if linear else self._attention(h, at + "self_attn."))
        h = self._normed(self.x, at + "post_attention_layernorm")
        logits = self._project(h, at + "mlp.gate")
        guessed = self._project(self._normed(before, at + "post_attention_layernorm"), at + "mlp.gate")
        top = self.config["num_experts_per_tok"]
        experts = np.argsort(-logits, 1, kind="stable")[:, :top]
        self.x = self.x + self._experts(h, logits, experts) + self._shared_expert(h, at + "mlp.shared_expert")
        self.layer += 1
        return Routes(experts, logits, guessed)

    def _mlp(self, x: Floats, gate: Floats, up: Floats, down: Floats) -> Floats:
        return (silu(x @ gate.T) * (x @ up.T)) @ down.T

    def _experts(self, x: Floats, logits: Floats, experts: NDArray[np.int64]) -> Floats:
        # The softmax over all experts, renormalised over the chosen ones, is the softmax over the chosen ones.
        chosen = np.take_along_axis(logits, experts, 1)
        weight = np.exp(chosen - chosen.max(1, keepdims=True))
        weight /= weight.sum(1, keepdims=True)
        y = np.zeros_like(x)
        for expert in np.unique(experts).tolist():
            rows, places = np.nonzero(experts == expert)
            matrices = self.weights.expert(self.layer, expert)
            out = self._mlp(x[rows], matrices["gate_proj"], matrices["up_proj"], matrices["down_proj"])
            y[rows] += out * weight[rows, places, None]
        return y

    def _shared_expert(self, x: Floats, name: str) -> Floats:
        matrices = [self.weights.matrix(f"{name}.{part}_proj") for part in ("gate", "up", "down")]
        return self._mlp(x, *matrices) * sigmoid(self._project(x, name + "_gate"))

    def _attention(self, x: Floats, at: str) -> Floats:
        c, tokens = self.config, len(x)
        heads, kv_heads, size = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        q, gate = np.split(self._project(x, at + "q_proj").reshape(tokens, heads, 2 * size), 2, -1)
        k = self._project(x, at + "k_proj").reshape(tokens, kv_heads, size)
        v = self._project(x, at + "v_proj").reshape(tokens, kv_heads, size)
        q, k = self._rotate(self._normed(q, at + "q_norm")), self._rotate(self._normed(k, at + "k_norm"))
        future = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
        y = np.empty_like(q)
        for head in range(heads):
            group = head // (heads // kv_heads)
            scores = q[:, head] @ k[:, group].T / np.float32(np.sqrt(size)) + future
            scores = np.exp(scores - scores.max(1, keepdims=True))
            y[:, head] = scores / scores.sum(1, keepdims=True) @ v[:, group]
        return self._project((y * sigmoid(gate)).reshape(tokens, -1), at + "o_proj")

    def _rotate(self, x: Floats) -> Floats:
        """Rotary embedding of [T, heads, size]: the first part of a head, as pairs (j, j + half)."""
        rope = self.config.get("rope_parameters") or self.config
        half = int(x.shape[-1] * rope["partial_rotary_factor"]) // 2
        angle = np.arange(len(x))[:, None, None] * rope["rope_theta"] ** (-np.arange(half) / half)
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        return np.concatenate([a * cos - b * sin, a * sin + b * cos, rest], -1)

    def _delta_net(self, x: Floats, at: str) -> Floats:
        c, tokens = self.config, len(x)
        key_heads, heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
        key, value, each = c["linear_key_head_dim"], c["linear_value_head_dim"], heads // key_heads
        if self.weights.family == "qwen3_next":  # rows are grouped by key head
            fused = self._project(x, at + "in_proj_qkvz").reshape(tokens, key_heads, -1)
            q, k, v, z = (part.reshape(tokens, -1) for part in np.split(fused, np.cumsum([key, key, each * value]), -1))
            qkv = np.concatenate([q, k, v], -1)
            b, a = np.split(self._project(x, at + "in_proj_ba").reshape(tokens, key_heads, 2 * each), 2, -1)
            b, a = b.reshape(tokens, heads), a.reshape(tokens, heads)
        else:
            qkv, z = self._project(x, at + "in_proj_qkv"), self._project(x, at + "in_proj_z")
            b, a = self._project(x, at + "in_proj_b"), self._project(x, at + "in_proj_a")
        kernel = self.weights.vector(at + "conv1d.weight")[..., 0]
        taps = kernel.shape[1]
        padded = np.concatenate([np.zeros((taps - 1, qkv.shape[1]), np.float32), qkv])
        qkv = silu(sum((padded[i : i + tokens] * kernel[:, i] for i in range(taps)), np.zeros_like(qkv)))
        q, k, v = np.split(qkv, [key_heads * key, 2 * key_heads * key], -1)

        def unit(t: Floats) -> Floats:
            t = t.reshape(tokens, key_heads, key)
            t = t / np.sqrt((t * t).sum(-1, keepdims=True) + np.float32(1e-6))
            return np.repeat(t, each, 1)

        query, k, values = unit(q) / np.float32(np.sqrt(key)), unit(k), v.reshape(tokens, heads, value)
        softplus = np.logaddexp(a + self.weights.vector(at + "dt_bias"), np.float32(0))
        keep = np.exp(-np.exp(self.weights.vector(at + "A_log")) * softplus)[..., None, None]
        beta = sigmoid(b)[..., None]
        state = np.zeros((heads, value, key), np.float32)
        y = np.empty((tokens, heads, value), np.float32)
        for t in range(tokens):
            state *= keep[t]
            missing = (values[t] - (state @ k[t][..., None])[..., 0]) * beta[t]
            state += missing[..., None] * k[t][:, None, :]
            y[t] = (state @ query[t][..., None])[..., 0]
        gated = self._normed(y, at + "norm") * silu(z.reshape(tokens, heads, value))
        return self._project(gated.reshape(tokens, -1), at + "out_proj")


def recall(wanted: NDArray[np.int64], guessed: Floats, width: int) -> float:
    """Share of the wanted experts [T, k] that are among the `width` best guesses."""
    guesses = np.argsort(-guessed, 1)[:, :width]
    return float(np.mean([len(np.intersect1d(w, g)) for w, g in zip(wanted, guesses, strict=True)]) / wanted.shape[1])


def measure(folder: Path, layers: int, tokens: int = 1000, warm: int = 300) -> None:
    """Prints routing statistics of the first layers over the container's script."""
    container = Container(folder)
    script = json.loads((folder / "tokens.json").read_text())[:tokens]
    forward = Forward(container, script)
    experts, top = container.config["num_experts"], container.config["num_experts_per_tok"]
    shares = "".join(f"{share:>6.0%}" for share in SHARES)
    print(f"hits of a pool that holds     LRU:{shares}  decay:{shares}  of the experts")
    print("layer  rms  logits  used  same next  guess@8  @16")
    routes = []
    for layer in range(min(layers, container.config["num_hidden_layers"])):
        route = forward.step()
        routes.append(route.experts)
        trace = decode_trace([route.experts], experts)
        line = f"{layer:5d} {np.sqrt(np.mean(forward.x**2)):5.2f} {route.logits.std():6.2f} "
        line += f"{len(np.unique(route.experts)) / experts:6.0%} {2 - overlap(trace):8.0%} "
        line += f"{recall(route.experts, route.guessed, 8):8.0%} {recall(route.experts, route.guessed, 16):6.0%}"
        print(line, hit_rates(trace, top, warm), flush=True)
    trace = decode_trace(routes, experts)
    spans = " / ".join(f"{overlap(trace, span):.2f}" for span in (2, 4, 8))
    print(f"all layers: union of 2 / 4 / 8 tokens {spans}, hits {hit_rates(trace, top, warm)}")
    if forward.layer == container.config["num_hidden_layers"]:
        logits = forward.logits()
        print(f"logits: std {logits.std():.2f}, largest {logits.max():.2f}, token {logits.argmax()}")


def decode_trace(routes: list[NDArray[np.int64]], experts: int) -> Trace:
    """Each layer's choices [T, k] as a trace of single tokens."""
    once = np.ones(routes[0].shape[1], np.int32)
    chunks = [
        Chunk(1, [(layer, np.sort(ids[t]).astype(np.int32), once) for layer, ids in enumerate(routes)])
        for t in range(len(routes[0]))
    ]
    return Trace(len(routes), experts, chunks)


def hit_rates(trace: Trace, top: int, warm: int) -> str:
    """LRU, then LFU with decay, at each of SHARES, after `warm` tokens."""
    columns = []
    for share in SHARES:
        slots = max(top, int(trace.items * share))
        for policy in (Lru(trace.items), LfuDecay(trace.items, 16, trace.layers * top)):
            columns.append(float(np.mean(replay(trace, [Pool(slots, policy)])[warm:])))
    return "".join(f"{rate:6.2f}" for rate in columns[0::2]) + " |" + "".join(f"{rate:6.2f}" for rate in columns[1::2])
