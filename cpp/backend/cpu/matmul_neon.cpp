// Matmul for 64-bit Arm.
#if defined(__aarch64__)
#include <arm_neon.h>

#include "backend/cpu/matmul_kernel.h"

namespace swiftlet {
namespace {

struct Neon {
  using F = float32x4_t;
  using U = uint32x4_t;
  static constexpr int kLanes = 4;
  static constexpr int kTokens = 6;  // of a tile: with 4 rows 24 sums, which leaves 8 of the 32 registers

  static F zero() { return vdupq_n_f32(0); }
  static F set1(float value) { return vdupq_n_f32(value); }
  static F broadcast(const float* value) { return vld1q_dup_f32(value); }
  static F load(const float* values) { return vld1q_f32(values); }
  static void store(float* values, F v) { vst1q_f32(values, v); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }  // a * b + c
  static float sum(F v) { return vaddvq_f32(v); }

  static U load_words(const void* p) { return vreinterpretq_u32_u8(vld1q_u8(static_cast<const uint8_t*>(p))); }
  static U mask(U v, uint32_t bits) { return vandq_u32(v, vdupq_n_u32(bits)); }
  template <int N>
  static U shift_left(U v) {
    return vshlq_n_u32(v, N);
  }
  template <int N>
  static U shift_right(U v) {
    return vshrq_n_u32(v, N);
  }
  static F to_float(U v) { return vcvtq_f32_u32(v); }
  static F as_float(U v) { return vreinterpretq_f32_u32(v); }
  // table[byte] for bytes below 16
  static U lookup(const uint8_t* table, U bytes) {
    return vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(table), vreinterpretq_u8_u32(bytes)));
  }

  static F load_f32(const std::byte* p) { return as_float(load_words(p)); }
  static F load_f16(const std::byte* p) { return vcvt_f32_f16(vreinterpret_f16_u16(load_halves(p))); }
  static F load_bf16(const std::byte* p) { return as_float(vshll_n_u16(load_halves(p), 16)); }

  // The lanes in `parts` equal parts, part i filled with values[i].
  static F spread(const float* values, int parts) {
    const float lanes[] = {values[0], values[parts / 4], values[2 * parts / 4], values[3 * parts / 4]};
    return load(lanes);
  }

  // 2^(byte - 127)
  static F e8m0(const std::byte* p) {
    const U exponent = shift_left<23>(vmovl_u16(load_4_bytes(p)));
    return as_float(vmaxq_u32(exponent, vdupq_n_u32(0x00400000)));  // 2^-127 is subnormal
  }
  // 8-bit floats divided by 256: f16 has the same fields, but a wider exponent with a bias that is 8 more.
  static F e4m3(const std::byte* p) {
    const int16x4_t high = vreinterpret_s16_u16(vshl_n_u16(load_4_bytes(p), 8));
    const uint16x4_t half = vand_u16(vreinterpret_u16_s16(vshr_n_s16(high, 1)), vdup_n_u16(0xbf80));
    return vcvt_f32_f16(vreinterpret_f16_u16(half));
  }

  // Codes 4K .. 4K + 3 of a stream of B-bit codes, which lie in one unaligned word of it.
  template <int B, int K>
  static U codes(const std::byte* stream) {
    constexpr int kBit = 4 * K * B, kFirst = kBit % 8;
    static_assert(kFirst + 4 * B <= 32);
    static constexpr int32_t kShifts[] = {-kFirst, -kFirst - B, -kFirst - 2 * B, -kFirst - 3 * B};
    const U words = vdupq_n_u32(swiftlet::load<uint32_t>(stream + kBit / 8));
    return mask(vshlq_u32(words, vld1q_s32(kShifts)), (1u << B) - 1);
  }
  // Bytes that codes<B, 0> .. codes<B, steps - 1> read.
  template <int B>
  static constexpr int codes_read(int steps) {
    return 4 * (steps - 1) * B / 8 + 4;
  }

  // out[j][i] = x[i][j] * factors[j], 4 x 4
  static void transpose4(const float* x, int x_stride, const float* factors, float* out, int out_stride) {
    const F r0 = load(x), r1 = load(x + x_stride), r2 = load(x + 2 * x_stride), r3 = load(x + 3 * x_stride);
    const F low02 = vzip1q_f32(r0, r2), high02 = vzip2q_f32(r0, r2);
    const F low13 = vzip1q_f32(r1, r3), high13 = vzip2q_f32(r1, r3);
    store(out, vmulq_n_f32(vzip1q_f32(low02, low13), factors[0]));
    store(out + out_stride, vmulq_n_f32(vzip2q_f32(low02, low13), factors[1]));
    store(out + 2 * out_stride, vmulq_n_f32(vzip1q_f32(high02, high13), factors[2]));
    store(out + 3 * out_stride, vmulq_n_f32(vzip2q_f32(high02, high13), factors[3]));
  }
  // 8 floats: the even ones, then the odd ones
  static void deinterleave(const float* x, float* out) {
    const float32x4x2_t pairs = vld2q_f32(x);
    store(out, pairs.val[0]);
    store(out + 4, pairs.val[1]);
  }

 private:
  static uint16x4_t load_halves(const std::byte* p) {
    return vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(p)));
  }
  static uint16x4_t load_4_bytes(const std::byte* p) {
    return vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(swiftlet::load<uint32_t>(p)))));
  }
};

}  // namespace

void matmul_neon(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end) {
  matmul<Neon>(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
