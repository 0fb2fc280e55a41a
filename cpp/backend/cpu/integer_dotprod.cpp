// The integer matmul for 64-bit Arm with the dot product extension, which adds products of four bytes to a word.
#if defined(__aarch64__)
#include <arm_neon.h>

#include <bit>
#include <limits>
#include <type_traits>

#include "backend/cpu/integer_kernel.h"

namespace swiftlet {
namespace {

struct DotProd {
  using F = float32x4_t;
  using V = int32x4_t;
  static constexpr int kLanes = 4;
  static constexpr int kTokens = 4;  // of a tile: with two vectors of rows 16 of the 32 registers for sums

  static F zero() { return vdupq_n_f32(0); }
  static F set1(float value) { return vdupq_n_f32(value); }
  static F load(const float* values) { return vld1q_f32(values); }
  static void store(float* values, F v) { vst1q_f32(values, v); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }  // a * b + c
  static F to_float(V v) { return vcvtq_f32_s32(v); }

  static V whole(V high, V low) { return vaddq_s32(vshlq_n_s32(high, 8), low); }  // 256 * high + low

  // q = 256 * high + low. As the low nibbles of 32 bytes of codes are the even columns, these come first.
  struct Block {
    int8_t low[kBlock], high[kBlock];
  };
  // The codes of a block, in its order: even columns, then odd ones.
  struct Nibbles {
    int8x16_t codes[4];
  };
  static Nibbles nibbles(const std::byte* block) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(block);
    Nibbles out;
    for (int i = 0; i < 2; ++i) {
      const uint8x16_t v = vld1q_u8(bytes + 16 * i);
      out.codes[i] = vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(0x0f)));
      out.codes[2 + i] = vreinterpretq_s8_u8(vshrq_n_u8(v, 4));
    }
    return out;
  }
  static V row_dot(const std::byte* block, const Block& x) {
    const Nibbles codes = nibbles(block);
    V high = vdupq_n_s32(0), low = vdupq_n_s32(0);
    for (int i = 0; i < 4; ++i) {
      high = vdotq_s32(high, codes.codes[i], vld1q_s8(x.high + 16 * i));
      low = vdotq_s32(low, codes.codes[i], vld1q_s8(x.low + 16 * i));
    }
    return whole(high, low);
  }
  // Lane i: the sum of all lanes of dot(i).
  template <class Dot>
  [[gnu::always_inline]] static V sum_rows(const Dot& dot) {
    const V first = vpaddq_s32(dot(0), dot(1));
    return vpaddq_s32(first, vpaddq_s32(dot(2), dot(3)));
  }

  // out[j], lane i: in[i], lane j
  static void transpose(const V* in, V* out) {
    const V low02 = vzip1q_s32(in[0], in[2]), high02 = vzip2q_s32(in[0], in[2]);
    const V low13 = vzip1q_s32(in[1], in[3]), high13 = vzip2q_s32(in[1], in[3]);
    out[0] = vzip1q_s32(low02, low13);
    out[1] = vzip2q_s32(low02, low13);
    out[2] = vzip1q_s32(high02, high13);
    out[3] = vzip2q_s32(high02, high13);
  }

  // The codes of 4 rows: in word k those of four columns for each row; first the even columns, then the odd ones.
  struct Panel {
    V words[16];
  };
  static void lay_out(const std::byte* const* rows, Panel& panel) {
    Nibbles codes[4];
    for (int i = 0; i < 4; ++i) codes[i] = nibbles(rows[i]);
    for (int k = 0; k < 4; ++k) {
      V in[4];
      for (int i = 0; i < 4; ++i) in[i] = vreinterpretq_s32_s8(codes[i].codes[k]);
      transpose(in, panel.words + 4 * k);
    }
  }
  template <int T, int R>
  static void panel_dot(const Panel* panels, const Block* const* x, V (*sums)[R]) {
    V high[T][R], low[T][R];
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) high[t][r] = low[t][r] = vdupq_n_s32(0);
    for (int k = 0; k < 16; k += 4) {
      int8x16_t x_high[T], x_low[T];
      for (int t = 0; t < T; ++t) {
        x_high[t] = vld1q_s8(x[t]->high + 4 * k);
        x_low[t] = vld1q_s8(x[t]->low + 4 * k);
      }
      const auto add = [&](auto word) __attribute__((always_inline)) {
        for (int r = 0; r < R; ++r) {
          const int8x16_t codes = vreinterpretq_s8_s32(panels[r].words[k + word.value]);
          for (int t = 0; t < T; ++t) {
            high[t][r] = vdotq_laneq_s32(high[t][r], codes, x_high[t], word.value);
            low[t][r] = vdotq_laneq_s32(low[t][r], codes, x_low[t], word.value);
          }
        }
      };
      add(std::integral_constant<int, 0>{});
      add(std::integral_constant<int, 1>{});
      add(std::integral_constant<int, 2>{});
      add(std::integral_constant<int, 3>{});
    }
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) sums[t][r] = whole(high[t][r], low[t][r]);
  }

  static PackedSteps pack(const float* x, Block& out) {
    uint32x4_t most = vdupq_n_u32(0);  // as whole numbers, where NaN and infinity are above all others
    for (int c = 0; c < kBlock; c += 4) most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + c))));
    const uint32_t bits = vmaxvq_u32(most);
    if (bits >= 0x7f800000) {
      out = {};
      const float nan = std::numeric_limits<float>::quiet_NaN();
      return {nan, nan};
    }
    const float step = std::max(std::bit_cast<float>(bits), kLeastLargest) / kMaxQ;
    const F inverse = set1(1 / step);
    V sum = vdupq_n_s32(0);
    for (int c = 0; c < kBlock; c += 16) {
      int16x4_t even[2], odd[2];
      for (int i = 0; i < 2; ++i) {
        const V a = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + c + 8 * i), inverse));
        const V b = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x + c + 8 * i + 4), inverse));
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
      put(kBlock / 2 + c / 2, vcombine_s16(odd[0], odd[1]));
    }
    return {step, step * float(vaddvq_s32(sum))};
  }

  // out[g][i] = group g of row i, for `count` groups (at most kChunkBlocks) of 4 rows.
  static void convert(DType dtype, const std::byte* const* rows, int count, float (*out)[4]) {
    for (int g = 0; g < count; ++g)
      for (int i = 0; i < 4; ++i) out[g][i] = float_at(rows[i], dtype, g);
  }
};

}  // namespace

void matmul_dotprod(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                    int64_t row_begin, int64_t row_end) {
  if (in_integers(w))
    IntegerKernel<DotProd>(w).run(x, x_stride, tokens, y, y_stride, row_begin, row_end);
  else
    matmul_neon(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
