"""The qwen3_5_moe text model in torch, compact, with the parameter names and shapes of a Hugging Face checkpoint.

`TinyQwen.forward(tokens, pos)` is for training on packed rows: `pos` is the position of each token inside its own
document, and every document starts with empty recurrent, convolution and attention state, exactly as at inference.
`TinyQwen.step(tokens, cache)` decodes a batch token by token.

Three layers out of four are Gated DeltaNet (in chunks when training), every fourth is gated grouped-query attention;
every layer has a sparse mixture of experts with a shared expert. The experts are computed densely and masked: at this
size that is the fastest way on a GPU, and it is exact.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

PREFIX = "model.language_model."
RESET = -30.0  # log decay that erases the state at a document start in a packed row


@dataclass
class TextConfig:
    vocab_size: int = 4096
    hidden_size: int = 256
    num_hidden_layers: int = 8
    full_attention_interval: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    partial_rotary_factor: float = 0.25
    rope_theta: float = 10000.0
    linear_num_key_heads: int = 4
    linear_num_value_heads: int = 8
    linear_key_head_dim: int = 64
    linear_value_head_dim: int = 64
    linear_conv_kernel_dim: int = 4
    num_experts: int = 32
    num_experts_per_tok: int = 4
    moe_intermediate_size: int = 64
    shared_expert_intermediate_size: int = 128
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 4096

    @property
    def layer_types(self) -> list[str]:
        n = self.full_attention_interval
        return ["linear_attention" if (i + 1) % n else "full_attention" for i in range(self.num_hidden_layers)]

    @property
    def rotary_dim(self) -> int:
        return int(self.head_dim * self.partial_rotary_factor)

    def hf_text_config(self) -> dict:
        d = asdict(self)
        theta, factor = d.pop("rope_theta"), d.pop("partial_rotary_factor")
        half = self.rotary_dim // 2
        a = (half + 2) // 3
        return {
            "model_type": "qwen3_5_moe_text",
            **d,
            "layer_types": self.layer_types,
            "hidden_act": "silu",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "attn_output_gate": True,
            "dtype": "bfloat16",
            "initializer_range": 0.02,
            "mamba_ssm_dtype": "float32",
            "mlp_only_layers": [],
            "output_router_logits": False,
            "partial_rotary_factor": factor,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": theta,
                "partial_rotary_factor": factor,
                "mrope_interleaved": True,
                "mrope_section": [a, a, half - 2 * a],
            },
            "router_aux_loss_coef": 0.001,
            "tie_word_embeddings": False,
            "use_cache": True,
        }

    @classmethod
    def from_hf(cls, config: dict) -> TextConfig:
        t = config.get("text_config", config)
        known = {k: t[k] for k in cls.__dataclass_fields__ if k in t}
        rope = t["rope_parameters"]
        known["rope_theta"] = float(rope["rope_theta"])
        known["partial_rotary_factor"] = float(rope["partial_rotary_factor"])
        return cls(**known)


# ----------------------------------------------------------------- primitives


def rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.float()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def l2norm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def _small_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.shape[-1] <= 8:  # exact f32, fused by the compiler; batched gemm is poor at this size
        return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
    return a @ b


def _unit_lower_inverse(a: torch.Tensor) -> torch.Tensor:
    """(I + a)^-1 for strictly lower triangular `a` [..., C, C], by block merging."""
    c = a.shape[-1]
    s, n = 4, c // 4
    eye = torch.eye(s, dtype=a.dtype, device=a.device)
    x = -a.reshape(*a.shape[:-2], n, s, n, s).diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
    inv = _small_mm(eye + x, eye + _small_mm(x, x))  # I + x + x^2 + x^3, and x^4 = 0
    while s < c:
        n //= 2
        off = a.reshape(*a.shape[:-2], n, 2, s, n, 2, s)[..., :, 1, :, :, 0, :]
        off = off.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
        inv = inv.reshape(*inv.shape[:-3], n, 2, s, s)
        top, bottom = inv[..., 0, :, :], inv[..., 1, :, :]
        low = -_small_mm(_small_mm(bottom, off), top)
        inv = torch.cat([torch.cat([top, torch.zeros_like(top)], -1), torch.cat([low, bottom], -1)], -2)
        s *= 2
    return inv.squeeze(-3)


class UnitLowerInverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        inv = _unit_lower_inverse(a)
        ctx.save_for_backward(inv)
        return inv

    @staticmethod
    def backward(ctx, grad):
        (inv,) = ctx.saved_tensors
        t = inv.transpose(-1, -2)
        return -(t @ grad @ t).tril(-1)


def chunk_gated_delta(q, k, v, g, beta, chunk: int = 64) -> torch.Tensor:
    """Gated delta rule over whole rows.  q, k [B,T,Hk,Dk], v [B,T,Hv,Dv],
    g (log decay), beta [B,T,Hv]; all f32, q and k already normalised and scaled.
    T must be a multiple of `chunk`.  Returns [B,T,Hv,Dv]."""
    b, t, hk, dk = k.shape
    hv, dv = v.shape[-2:]
    n = t // chunk

    def split(x):  # [B,T,H,...] -> [B,H,N,C,...]
        return x.reshape(b, n, chunk, *x.shape[2:]).transpose(2, 3).transpose(1, 2)

    q, k, v, g, beta = map(split, (q, k, v, g, beta))
    rep = hv // hk
    cum = g.cumsum(-1)
    gamma = (cum.unsqueeze(-1) - cum.unsqueeze(-2)).tril().exp().tril()
    kk = (k @ k.transpose(-1, -2)).repeat_interleave(rep, 1)
    qk = (q @ k.transpose(-1, -2)).repeat_interleave(rep, 1)
    k, q = k.repeat_interleave(rep, 1), q.repeat_interleave(rep, 1)
    inv = UnitLowerInverse.apply((kk * gamma * beta.unsqueeze(-1)).tril(-1))
    ecum = cum.exp().unsqueeze(-1)
    u = inv @ (v * beta.unsqueeze(-1))
    w = inv @ (k * (beta.unsqueeze(-1) * ecum))
    last = cum[..., -1:]
    kd = (k * (last - cum).exp().unsqueeze(-1)).transpose(-1, -2)
    eye = torch.eye(dk, dtype=k.dtype, device=k.device)
    trans = last.exp().unsqueeze(-1) * eye - kd @ w  # state transition of one chunk
    inject = kd @ u
    states, s = [], torch.zeros(b * hv, dk, dv, dtype=k.dtype, device=k.device)
    for i in range(n):
        states.append(s)
        s = torch.baddbmm(inject[:, :, i].reshape(b * hv, dk, dv), trans[:, :, i].reshape(b * hv, dk, dk), s)
    s = torch.stack(states, 1).reshape(b, hv, n, dk, dv)
    out = (q * ecum) @ s + (qk * gamma) @ (u - w @ s)
    return out.transpose(1, 2).transpose(2, 3).reshape(b, t, hv, dv)


# --------------------------------------------------------------------- layers


class ZeroCentredNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x, dtype=None):
        return (rms(x, self.eps) * (1.0 + self.weight.float())).to(dtype or x.dtype)


class GatedNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x, gate):
        return rms(x, self.eps) * self.weight.float() * F.silu(gate.float())


class Conv(nn.Module):
    def __init__(self, channels: int, kernel: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, kernel))


class GatedDeltaNet(nn.Module):
    def __init__(self, c: TextConfig):
        super().__init__()
        self.c = c
        self.key_dim = c.linear_num_key_heads * c.linear_key_head_dim
        self.value_dim = c.linear_num_value_heads * c.linear_value_head_dim
        conv_dim = 2 * self.key_dim + self.value_dim
        self.in_proj_qkv = nn.Linear(c.hidden_size, conv_dim, bias=False)
        self.in_proj_z = nn.Linear(c.hidden_size, self.value_dim, bias=False)
        self.in_proj_b = nn.Linear(c.hidden_size, c.linear_num_value_heads, bias=False)
        self.in_proj_a = nn.Linear(c.hidden_size, c.linear_num_value_heads, bias=False)
        self.conv1d = Conv(conv_dim, c.linear_conv_kernel_dim)
        self.A_log = nn.Parameter(torch.zeros(c.linear_num_value_heads))
        self.dt_bias = nn.Parameter(torch.zeros(c.linear_num_value_heads))
        self.norm = GatedNorm(c.linear_value_head_dim, c.rms_norm_eps)
        self.out_proj = nn.Linear(self.value_dim, c.hidden_size, bias=False)

    def _heads(self, mixed):
        c = self.c
        q, k, v = mixed.split([self.key_dim, self.key_dim, self.value_dim], -1)
        lead = mixed.shape[:-1]
        q = l2norm(q.reshape(*lead, c.linear_num_key_heads, c.linear_key_head_dim))
        k = l2norm(k.reshape(*lead, c.linear_num_key_heads, c.linear_key_head_dim))
        return (q * c.linear_key_head_dim**-0.5, k, v.reshape(*lead, c.linear_num_value_heads, c.linear_value_head_dim))

    def _gates(self, x):
        g = -self.A_log.float().exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias.float())
        return g, self.in_proj_b(x).float().sigmoid()

    def forward(self, x, pos):
        b, t, _ = x.shape
        qkv = self.in_proj_qkv(x).float()
        w = self.conv1d.weight.float()[:, 0]  # [channels, kernel], newest tap last
        kernel = w.shape[-1]
        y = qkv * w[:, -1]
        for j in range(1, kernel):
            prev = F.pad(qkv, (0, 0, j, 0))[:, :t]
            y = y + prev * w[:, kernel - 1 - j] * (pos >= j).unsqueeze(-1)
        q, k, v = self._heads(F.silu(y))
        g, beta = self._gates(x)
        g = torch.where((pos == 0).unsqueeze(-1), RESET, g)
        out = chunk_gated_delta(q, k, v, g, beta)
        z = self.in_proj_z(x).reshape(out.shape)
        return self.out_proj(self.norm(out, z).reshape(b, t, -1).to(x.dtype))

    def step(self, x, cache):
        """x [B, D]: one more token of each of B sequences."""
        b = x.shape[0]
        qkv = self.in_proj_qkv(x).float()
        w = self.conv1d.weight.float()[:, 0]
        if not cache:
            cache["conv"] = qkv.new_zeros(b, w.shape[-1] - 1, qkv.shape[-1])
            cache["state"] = qkv.new_zeros(
                b, self.c.linear_num_value_heads, self.c.linear_key_head_dim, self.c.linear_value_head_dim
            )
        window = torch.cat([cache["conv"], qkv.unsqueeze(1)], 1)
        cache["conv"] = window[:, 1:]
        q, k, v = self._heads(F.silu((window * w.t()).sum(1)))
        rep = v.shape[1] // k.shape[1]
        q, k = q.repeat_interleave(rep, 1), k.repeat_interleave(rep, 1)
        g, beta = self._gates(x)
        s = cache["state"] * g.exp()[..., None, None]
        delta = (v - (k.unsqueeze(-2) @ s).squeeze(-2)) * beta.unsqueeze(-1)
        cache["state"] = s = s + k.unsqueeze(-1) * delta.unsqueeze(-2)
        out = (q.unsqueeze(-2) @ s).squeeze(-2)
        z = self.in_proj_z(x).reshape(out.shape)
        return self.out_proj(self.norm(out, z).reshape(b, -1).to(x.dtype))


class Attention(nn.Module):
    def __init__(self, c: TextConfig):
        super().__init__()
        self.c = c
        h, kv, d = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.q_proj = nn.Linear(c.hidden_size, h * d * 2, bias=False)  # per head: query, then gate
        self.k_proj = nn.Linear(c.hidden_size, kv * d, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, kv * d, bias=False)
        self.o_proj = nn.Linear(h * d, c.hidden_size, bias=False)
        self.q_norm = ZeroCentredNorm(d, c.rms_norm_eps)
        self.k_norm = ZeroCentredNorm(d, c.rms_norm_eps)

    def _rope(self, x, pos):
        """x [..., T, H, D], pos [..., T]; rotates the first rotary_dim dims (half split)."""
        r = self.c.rotary_dim
        inv = self.c.rope_theta ** (-torch.arange(0, r, 2, device=x.device, dtype=torch.float) / r)
        angle = pos.float()[..., None, None] * inv
        cos, sin = angle.cos(), angle.sin()
        a, b, rest = x[..., : r // 2], x[..., r // 2 : r], x[..., r:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def _qkv(self, x, pos):
        c = self.c
        lead = x.shape[:-1]
        q, gate = self.q_proj(x).reshape(*lead, c.num_attention_heads, 2 * c.head_dim).chunk(2, -1)
        k = self.k_proj(x).reshape(*lead, c.num_key_value_heads, c.head_dim)
        v = self.v_proj(x).reshape(*lead, c.num_key_value_heads, c.head_dim)
        q = self._rope(self.q_norm(q, torch.float32), pos).to(x.dtype)
        k = self._rope(self.k_norm(k, torch.float32), pos).to(x.dtype)
        return q, k, v, gate.reshape(*lead, -1)

    def forward(self, x, pos, mask):
        q, k, v, gate = self._qkv(x, pos)
        rep = q.shape[2] // k.shape[2]
        k, v = k.repeat_interleave(rep, 2), v.repeat_interleave(rep, 2)
        o = F.scaled_dot_product_attention(*(y.transpose(1, 2) for y in (q, k, v)), attn_mask=mask)
        o = o.transpose(1, 2).reshape(gate.shape)
        return self.o_proj(o * gate.sigmoid())

    def step(self, x, cache):
        n = cache["k"].shape[1] if cache else 0
        q, k, v, gate = self._qkv(x.unsqueeze(1), torch.full((1, 1), n, device=x.device))
        if cache:
            k, v = torch.cat([cache["k"], k], 1), torch.cat([cache["v"], v], 1)
        cache.update(k=k, v=v)
        b, _, h, d = q.shape
        q = q.reshape(b, k.shape[2], h // k.shape[2], d)  # query heads grouped by their key head
        a = torch.einsum("bgrd,btgd->bgrt", q, k).float() * d**-0.5
        o = torch.einsum("bgrt,btgd->bgrd", a.softmax(-1).to(v.dtype), v)
        return self.o_proj(o.reshape(b, h * d) * gate[:, 0].sigmoid())


class Experts(nn.Module):
    def __init__(self, c: TextConfig):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(c.num_experts, 2 * c.moe_intermediate_size, c.hidden_size))
        self.down_proj = nn.Parameter(torch.empty(c.num_experts, c.hidden_size, c.moe_intermediate_size))

    def forward(self, x, weight):
        """x [N, D], weight [N, E] with zeros for experts that were not picked."""
        e, d, i = self.down_proj.shape
        gate, up = (x @ self.gate_up_proj.reshape(-1, d).t()).reshape(-1, e, 2 * i).chunk(2, -1)
        h = F.silu(gate) * up * weight.to(x.dtype).unsqueeze(-1)
        return h.reshape(-1, e * i) @ self.down_proj.transpose(1, 2).reshape(e * i, d)


class MLP(nn.Module):
    def __init__(self, dim: int, inner: int):
        super().__init__()
        self.gate_proj = nn.Linear(dim, inner, bias=False)
        self.up_proj = nn.Linear(dim, inner, bias=False)
        self.down_proj = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class SparseMoe(nn.Module):
    def __init__(self, c: TextConfig):
        super().__init__()
        self.top_k = c.num_experts_per_tok
        self.gate = nn.Linear(c.hidden_size, c.num_experts, bias=False)
        self.experts = Experts(c)
        self.shared_expert = MLP(c.hidden_size, c.shared_expert_intermediate_size)
        self.shared_expert_gate = nn.Linear(c.hidden_size, 1, bias=False)

    def _mix(self, x):
        """x [N, D] -> output, router probabilities, weights of the picked experts (0 for the others)."""
        probs = self.gate(x).float().softmax(-1)
        top, index = probs.topk(self.top_k, -1)
        weight = torch.zeros_like(probs).scatter(-1, index, top / top.sum(-1, keepdim=True))
        y = self.experts(x, weight) + self.shared_expert_gate(x).sigmoid() * self.shared_expert(x)
        return y, probs, weight

    def forward(self, x):
        """-> output and two routing measures: balance (1.0 when all experts are used evenly over
        the batch) and locality (how concentrated the use is within 64 tokens; 1.0 when even)."""
        y, probs, weight = self._mix(x.reshape(-1, x.shape[-1]))
        e = probs.shape[-1]
        load = (weight.detach() > 0).float().mean(0) / self.top_k
        balance = e * (load * probs.mean(0)).sum()
        near = probs.reshape(-1, min(64, probs.shape[0]), e).mean(1)
        locality = e * near.square().sum(-1).mean()
        return y.reshape(x.shape), torch.stack([balance, locality])

    def step(self, x):
        return self._mix(x)[0]


class Layer(nn.Module):
    def __init__(self, c: TextConfig, kind: str):
        super().__init__()
        self.is_linear = kind == "linear_attention"
        if self.is_linear:
            self.linear_attn = GatedDeltaNet(c)
        else:
            self.self_attn = Attention(c)
        self.input_layernorm = ZeroCentredNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = ZeroCentredNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = SparseMoe(c)

    def forward(self, x, pos, mask):
        dt = self.mlp.gate.weight.dtype
        h = self.input_layernorm(x, dt)
        x = x + (self.linear_attn(h, pos) if self.is_linear else self.self_attn(h, pos, mask)).to(x.dtype)
        y, routing = self.mlp(self.post_attention_layernorm(x, dt))
        return x + y.to(x.dtype), routing

    def step(self, x, cache):
        dt = self.mlp.gate.weight.dtype
        h = self.input_layernorm(x, dt)
        x = x + (self.linear_attn.step(h, cache) if self.is_linear else self.self_attn.step(h, cache)).to(x.dtype)
        return x + self.mlp.step(self.post_attention_layernorm(x, dt)).to(x.dtype)


class TinyQwen(nn.Module):
    def __init__(self, c: TextConfig):
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c, kind) for kind in c.layer_types)
        self.norm = ZeroCentredNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)

    # -- training ---------------------------------------------------------
    def hidden(self, tokens, pos):
        x = self.embed_tokens(tokens).float()
        row = torch.arange(tokens.shape[1], device=tokens.device)
        start = row - pos  # row index of the first token of the own document
        mask = (row[None, :, None] >= row[None, None, :]) & (start[:, :, None] == start[:, None, :])
        routing = []
        for layer in self.layers:
            x, r = layer(x, pos, mask.unsqueeze(1))
            routing.append(r)
        return self.norm(x, self.lm_head.weight.dtype), torch.stack(routing)  # [layers, 2]

    def forward(self, tokens, pos):
        h, routing = self.hidden(tokens, pos)
        return self.lm_head(h), routing

    # -- decoding ---------------------------------------------------------
    def new_cache(self):
        return [{} for _ in self.layers]

    @torch.no_grad()
    def step(self, tokens, cache):
        """Feeds one token [B] to each of B sequences; returns the logits [B, V] of the next."""
        x = self.embed_tokens(tokens).float()
        for layer, c in zip(self.layers, cache, strict=True):
            x = layer.step(x, c)
        return self.lm_head(self.norm(x, self.lm_head.weight.dtype)).float()

    # -- names ------------------------------------------------------------
    def hf_state(self) -> dict[str, torch.Tensor]:
        return {(k if k.startswith("lm_head") else PREFIX + k): v for k, v in self.state_dict().items()}

    def load_hf_state(self, state: dict[str, torch.Tensor]) -> None:
        self.load_state_dict({k.removeprefix(PREFIX): v for k, v in state.items()})


def init_weights(model: TinyQwen, seed: int = 0) -> None:
    g = torch.Generator().manual_seed(seed)
    c = model.c
    residual = (2 * c.num_hidden_layers) ** -0.5
    for name, p in model.named_parameters():
        with torch.no_grad():
            if name.endswith(("layernorm.weight", "q_norm.weight", "k_norm.weight")) or name == "norm.weight":
                p.zero_()
            elif name.endswith("linear_attn.norm.weight"):
                p.fill_(1.0)
            elif name.endswith("A_log"):
                p.copy_(torch.linspace(1.0, 8.0, p.numel()).log())
            elif name.endswith("dt_bias"):  # decay per step between about e^-0.002 and e^-0.8
                dt = torch.logspace(-2.7, -1.0, p.numel())
                p.copy_(dt + torch.log(-torch.expm1(-dt)))
            elif name == "embed_tokens.weight":
                p.copy_(torch.randn(p.shape, generator=g) * 0.1)
            else:
                std = (p.shape[-1] if not name.endswith("conv1d.weight") else 4) ** -0.5
                if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "down_proj")):
                    std *= residual
                if name.endswith(("mlp.gate.weight", "lm_head.weight")):
                    std *= 0.3
                p.copy_(torch.randn(p.shape, generator=g) * std)


def load_checkpoint(folder: str | Path, dtype=torch.float32) -> TinyQwen:
    folder = Path(folder)
    model = TinyQwen(TextConfig.from_hf(json.loads((folder / "config.json").read_text())))
    state = {}
    for f in sorted(folder.glob("*.safetensors")):
        state.update(load_file(f))
    model.load_hf_state(state)
    return model.to(dtype).eval()
