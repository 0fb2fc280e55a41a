import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import ROOT, load
from swiftlet.repack.quantize import BITS, GROUP_SIZES, decode, encode, pack, quantize

CASES = [(bits, group) for bits in BITS for group in GROUP_SIZES]


@pytest.mark.parametrize(("bits", "group"), CASES)
def test_equals_mlx_bit_for_bit(bits, group):
    tensors, _ = load(ROOT / "components" / "quantized_matmul.safetensors")
    case = f"affine-{bits}-g{group}"
    made = quantize(tensors[f"{case}.w"].tobytes(), "BF16", bits, group)
    assert made == tuple(tensors[f"{case}.{field}"].tobytes() for field in ("weight", "scales", "biases"))


def rule(weights, bits):
    """The documented rule for one group, one scalar at a time."""
    f = np.float32
    low, high = min(weights), max(weights)
    scale = max((high - low) / f(2**bits - 1), f(1e-7))
    if not abs(low) > abs(high):
        scale = -scale
    edge = low if abs(low) > abs(high) else high
    bias = f(0)
    if steps := np.rint(edge / scale):
        scale, bias = edge / steps, edge
    codes = [int(min(max(np.rint((w - bias) / scale), 0), 2**bits - 1)) for w in weights]
    return codes, scale, bias


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e4, 1e4, width=16), min_size=32, max_size=32),
    st.sampled_from(BITS),
    st.sampled_from(["F32", "F16", "BF16"]),
)
def test_follows_the_rule(numbers, bits, dtype):
    data = encode(np.array(numbers, np.float32), dtype)
    codes, scale, bias = rule(list(decode(data, dtype)), bits)
    stream = sum(code << (bits * place) for place, code in enumerate(codes)).to_bytes(4 * bits, "little")
    expected = (stream, encode(np.array([scale]), dtype), encode(np.array([bias]), dtype))
    assert quantize(data, dtype, bits, 32) == expected


def test_groups_do_not_touch_each_other():
    rng = np.random.default_rng(1)
    data = rng.standard_normal(6 * 64).astype(np.float32).tobytes()
    whole = quantize(data, "F32", 3, 64)
    parts = [quantize(data[i : i + 256], "F32", 3, 64) for i in range(0, len(data), 256)]
    assert whole == tuple(b"".join(part) for part in zip(*parts, strict=True))


@pytest.mark.parametrize("bits", BITS)
def test_pack_is_one_little_endian_stream(bits):
    codes = np.random.default_rng(bits).integers(0, 2**bits, 64, dtype=np.uint8)
    stream = sum(int(code) << (bits * place) for place, code in enumerate(codes))
    assert pack(codes, bits) == stream.to_bytes(8 * bits, "little")


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_refuses_what_is_not_finite(dtype, bad):
    weights = np.ones(64, np.float32)
    weights[40] = bad
    data = weights.astype(np.float16).tobytes() if dtype == "F16" else weights.tobytes()
    if dtype == "BF16":
        data = (weights.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    with pytest.raises(ValueError, match="NaN"):
        quantize(data, dtype, 4, 64)


def test_refuses_a_range_beyond_f32():
    weights = np.zeros(32, np.float32)
    weights[:2] = 3e38, -3e38
    with pytest.raises(ValueError, match="range"):
        quantize(weights.tobytes(), "F32", 4, 32)


def test_rounds_to_nearest_even():
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0xBF808000], np.uint32)
    assert np.frombuffer(encode(bits.view(np.float32), "BF16"), np.uint16).tolist() == [0x3F80, 0x3F82, 0x3F81, 0xBF80]
