"""MLX affine quantization in numpy, equal to mlx.core.quantize (CPU) bit for bit.

Each group of consecutive weights of a row shares a scale s and a bias b, so that w is about s * code + b with a code of
0 .. 2^bits - 1. The end of the group's range that is farther from zero becomes the bias, and the scale is bent a little
so that zero is a code as well:

    s = max((max - min) / (2^bits - 1), 1e-7), negative unless |min| > |max|
    edge = min if |min| > |max| else max
    q = round(edge / s);   if q != 0: s = edge / q, b = edge;   else: b = 0
    code = clamp(round((w - b) / s), 0, 2^bits - 1)

All of it in f32, rounding half to even; s and b are rounded to the dtype of the weights only when they are stored.
Codes are one little-endian bit stream.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)
FLOATS = ("F32", "F16", "BF16")


def decode(data: bytes, dtype: str) -> NDArray[np.float32]:
    """Values of a float tensor, widened to f32 (exact)."""
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, "<f4" if dtype == "F32" else "<f2").astype(np.float32)


def encode(values: NDArray[np.float32], dtype: str) -> bytes:
    """Finite f32 values as they are stored, rounded to nearest even."""
    if dtype == "BF16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
    return values.astype("<f4" if dtype == "F32" else "<f2").tobytes()


def quantize(data: bytes, dtype: str, bits: int, group_size: int) -> tuple[bytes, bytes, bytes]:
    """Quantizes whole groups to the bytes of (codes, scales, biases), scales and biases in `dtype`.

    `data` holds any number of groups, one after the other. Raises ValueError for weights that are not finite.
    """
    groups = decode(data, dtype).reshape(-1, group_size)
    low, high = groups.min(axis=1), groups.max(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        span = high - low
    if not np.isfinite(span).all():
        raise ValueError("NaN, infinity or a range beyond f32")
    last = np.float32(2**bits - 1)
    from_low = np.abs(low) > np.abs(high)
    scale = np.maximum(span / last, np.float32(1e-7))
    scale = np.where(from_low, scale, -scale)
    edge = np.where(from_low, low, high)
    steps = np.rint(edge / scale)
    scale = np.divide(edge, steps, out=scale, where=steps != 0)
    bias = np.where(steps != 0, edge, np.float32(0))

    groups -= bias[:, None]
    groups /= scale[:, None]
    np.rint(groups, out=groups)
    np.clip(groups, 0, last, out=groups)
    return pack(groups.astype(np.uint8), bits), encode(scale, dtype), encode(bias, dtype)


def pack(codes: NDArray[np.uint8], bits: int) -> bytes:
    """Codes (a multiple of 8 of them) as a little-endian bit stream.

    Eight codes, each in a byte of a u64, are moved together in three steps: pairs, fours, eights.
    """
    words = codes.reshape(-1, 8).view("<u8")[:, 0]
    for lane, low in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):
        used = bits * (lane // 8)
        words = (words & np.uint64(low)) | ((words & np.uint64(~low & 2**64 - 1)) >> np.uint64(lane - used))
    return words.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :bits].tobytes()
