// The integer matmul for 64-bit Arm with the dot product extension, which adds products of four bytes to a word; and
// what packs x for it.
#if defined(__aarch64__)
#include <arm_neon.h>

#include <type_traits>

#include "backend/cpu/integer_kernel.h"

namespace swiftlet {
namespace {

struct DotProd {
  using F = float32x4_t;
  using V = int32x4_t;
  static constexpr int kLanes = 4;
  static constexpr int kSets = 1;    // of rows in a tile
  static constexpr int kTokens = 2;  // of a tile: with four vectors of rows 16 of the 32 registers for sums

  static F set1(float value) { return vdupq_n_f32(value); }
  static void store(float* values, F v) { vst1q_f32(values, v); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }  // a * b + c
  static F to_float(V v) { return vcvtq_f32_s32(v); }

  // 4 floats that are stored as `dtype`.
  static F load_as(DType dtype, const std::byte* p) {
    const auto* halves = reinterpret_cast<const uint8_t*>(p);
    switch (dtype) {
      case DType::BF16:
        return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(halves)), 16));
      case DType::F16:
        return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(halves)));
      default:
        return vreinterpretq_f32_u8(vld1q_u8(halves));
    }
  }

  // Of 8 columns the even ones and the odd ones, a byte each. As bytes are signed, 8-bit codes are less by 128.
  struct Codes {
    int8x16_t even, odd;
  };
  template <int kBits>
  static Codes codes(const std::byte* words) {
    const auto load = [&](int64_t at) { return vld1q_u8(reinterpret_cast<const uint8_t*>(words) + at); };
    if constexpr (kBits == 8) {
      const auto less = [&](int64_t at) { return vreinterpretq_s8_u8(veorq_u8(load(at), vdupq_n_u8(128))); };
      return {less(0), less(block_bytes(kBits) / 2)};
    }
    const uint8x16_t bytes = load(0);
    return {vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(0x0f))), vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4))};
  }

  // The sum of a block's q.
  static int32_t sum_of(const PackedBlock& x) {
    V high = vdupq_n_s32(0), low = vdupq_n_s32(0);
    for (int c = 0; c < kBlockColumns; c += 16) {
      high = vdotq_s32(high, vld1q_s8(x.high + c), vdupq_n_s8(1));
      low = vdotq_s32(low, vld1q_s8(x.low + c), vdupq_n_s8(1));
    }
    return vaddvq_s32(vaddq_s32(vshlq_n_s32(high, 8), low));
  }

  template <int kBits, int T>
  [[gnu::always_inline]] static void dot(const std::byte* const* codes_of, const PackedBlock* const* x,
                                         V (*sums)[1][4]) {
    const std::byte* words = codes_of[0];
    V high[T][4], low[T][4];
    for (int t = 0; t < T; ++t)
      for (int v = 0; v < 4; ++v) high[t][v] = low[t][v] = vdupq_n_s32(0);
    for (int first = 0; first < kBlockColumns / 2; first += 16) {  // even (odd) columns, as many as a register holds
      int8x16_t high_even[T], high_odd[T], low_even[T], low_odd[T];
      for (int t = 0; t < T; ++t) {
        high_even[t] = vld1q_s8(x[t]->high + first);
        high_odd[t] = vld1q_s8(x[t]->high + kBlockColumns / 2 + first);
        low_even[t] = vld1q_s8(x[t]->low + first);
        low_odd[t] = vld1q_s8(x[t]->low + kBlockColumns / 2 + first);
      }
      const auto add = [&](auto word) __attribute__((always_inline)) {
        for (int v = 0; v < 4; ++v) {
          const Codes rows = codes<kBits>(words + 16 * first + 64 * word.value + 16 * v);
          for (int t = 0; t < T; ++t) {
            high[t][v] = vdotq_laneq_s32(high[t][v], rows.even, high_even[t], word.value);
            low[t][v] = vdotq_laneq_s32(low[t][v], rows.even, low_even[t], word.value);
            high[t][v] = vdotq_laneq_s32(high[t][v], rows.odd, high_odd[t], word.value);
            low[t][v] = vdotq_laneq_s32(low[t][v], rows.odd, low_odd[t], word.value);
          }
        }
      };
      add(std::integral_constant<int, 0>{});
      add(std::integral_constant<int, 1>{});
      add(std::integral_constant<int, 2>{});
      add(std::integral_constant<int, 3>{});
    }
    for (int t = 0; t < T; ++t) {
      const V missing = vdupq_n_s32(kBits == 8 ? 128 * sum_of(*x[t]) : 0);
      for (int v = 0; v < 4; ++v) sums[t][0][v] = vaddq_s32(missing, vaddq_s32(vshlq_n_s32(high[t][v], 8), low[t][v]));
    }
  }
};

PackedSteps pack_block(const float* x, PackedBlock& out) {
  uint32x4_t most = vdupq_n_u32(0);
  for (int c = 0; c < kBlockColumns; c += 4) most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + c))));
  const float step = step_of(vmaxvq_u32(most));
  if (std::isnan(step)) {
    out = {};
    return {step, step};
  }
  const float32x4_t inverse = vdupq_n_f32(1 / step);
  int32x4_t sum = vdupq_n_s32(0);
  for (int c = 0; c < kBlockColumns; c += 16) {
    int16x4_t even[2], odd[2];
    for (int i = 0; i < 2; ++i) {
      const int32x4_t a = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + c + 8 * i), inverse));
      const int32x4_t b = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + c + 8 * i + 4), inverse));
      sum = vaddq_s32(sum, vaddq_s32(a, b));
      even[i] = vmovn_s32(vuzp1q_s32(a, b));
      odd[i] = vmovn_s32(vuzp2q_s32(a, b));
    }
    const auto put = [&](int at, int16x8_t q) {
      // As the low byte is signed, the high one is that of q + 128.
      vst1_s8(out.high + at, vshrn_n_s16(vaddq_s16(q, vdupq_n_s16(128)), 8));
      vst1_s8(out.low + at, vmovn_s16(q));
    };
    put(c / 2, vcombine_s16(even[0], even[1]));
    put(kBlockColumns / 2 + c / 2, vcombine_s16(odd[0], odd[1]));
  }
  return {step, step * float(vaddvq_s32(sum))};
}

}  // namespace

void pack_dotprod(const float* x, int64_t cols, std::byte* out) { pack_blocks<pack_block>(x, cols, out); }

void integer_matmul_dotprod(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                            int64_t row_begin, int64_t row_end) {
  IntegerKernel<DotProd>(w, x, y, y_stride, row_begin, row_end).run(tokens);
}

}  // namespace swiftlet
#endif
