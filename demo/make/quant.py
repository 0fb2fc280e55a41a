"""MLX affine quantization (a scale and a bias for each group of weights) in torch, for training on the quantized grid.

`snap` returns the values that a weight takes when it is quantized and widened again. Scales and biases are rounded to
bf16, as they are stored for a bf16 checkpoint, and so is the result: a snapped weight quantizes to itself, and
converting a snapped bf16 checkpoint to 4 bits loses nothing but bf16 rounding.
"""

from __future__ import annotations

import torch

GROUP = 64


def bits_for(name: str) -> int | None:
    """4 for matrices, 8 for routers and shared-expert gates, None for norms, conv1d, A_log and dt_bias, which stay."""
    if name.endswith(("mlp.gate.weight", "mlp.shared_expert_gate.weight")):
        return 8
    if "norm" in name or name.endswith(("conv1d.weight", "A_log", "dt_bias")):
        return None
    return 4


def affine(w: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """w [..., n * 64] -> codes [groups, 64], scale and bias [groups, 1], as mlx.core.quantize has them for bf16."""
    g = w.bfloat16().float().reshape(-1, GROUP)
    last = float(2**bits - 1)
    low, high = g.amin(1, keepdim=True), g.amax(1, keepdim=True)
    from_low = low.abs() > high.abs()
    scale = ((high - low) / last).clamp_min(1e-7)
    scale = torch.where(from_low, scale, -scale)
    edge = torch.where(from_low, low, high)
    steps = torch.round(edge / scale)
    zero = steps == 0
    scale = torch.where(zero, scale, edge / torch.where(zero, torch.ones_like(steps), steps))
    bias = torch.where(zero, torch.zeros_like(edge), edge)
    codes = torch.round((g - bias) / scale).clamp_(0, last)
    return codes, scale.bfloat16(), bias.bfloat16()


def snap(w: torch.Tensor, bits: int) -> torch.Tensor:
    codes, scale, bias = affine(w, bits)
    return (codes * scale.float() + bias.float()).bfloat16().reshape(w.shape)


def snap_state(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state dict with every quantizable matrix on its grid."""
    return {name: w if (bits := bits_for(name)) is None else snap(w, bits).to(w.dtype) for name, w in state.items()}
