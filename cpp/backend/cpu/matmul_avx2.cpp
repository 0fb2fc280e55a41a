// Matmul for x86-64 with AVX2, FMA and F16C.
#if defined(__x86_64__)
#include "backend/cpu/matmul_kernel.h"
#include "backend/cpu/matmul_x86.h"

namespace swiftlet {
namespace {

struct Avx2 {
  using F = __m256;   // 8 floats
  using U = __m256i;  // 8 words
  static constexpr int kLanes = 8;
  static constexpr int kTokens = 3;  // of a tile: with 4 rows 12 sums, which leaves 4 of the 16 registers

  static F zero() { return _mm256_setzero_ps(); }
  static F set1(float value) { return _mm256_set1_ps(value); }
  static F broadcast(const float* value) { return _mm256_broadcast_ss(value); }
  static F load(const float* values) { return _mm256_loadu_ps(values); }
  static void store(float* values, F v) { _mm256_storeu_ps(values, v); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }  // a * b + c
  static float sum(F v) { return sum_of_8(v); }

  static U load_words(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static U mask(U v, uint32_t bits) { return _mm256_and_si256(v, _mm256_set1_epi32(int(bits))); }
  template <int N>
  static U shift_left(U v) {
    return _mm256_slli_epi32(v, N);
  }
  template <int N>
  static U shift_right(U v) {
    return _mm256_srli_epi32(v, N);
  }
  static F to_float(U v) { return _mm256_cvtepi32_ps(v); }  // of words below 2^31
  static F as_float(U v) { return _mm256_castsi256_ps(v); }
  // table[byte] for bytes below 16
  static U lookup(const uint8_t* table, U bytes) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_16_bytes(table)), bytes);
  }

  static F load_f32(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  static F load_f16(const std::byte* p) { return _mm256_cvtph_ps(load_16_bytes(p)); }
  static F load_bf16(const std::byte* p) { return as_float(shift_left<16>(_mm256_cvtepu16_epi32(load_16_bytes(p)))); }

  // The lanes in `parts` equal parts, part i filled with values[i]. Reads 8 floats.
  static F spread(const float* values, int parts) {
    const U lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_permutevar8x32_ps(load(values), shift_right<3>(_mm256_mullo_epi32(lanes, _mm256_set1_epi32(parts))));
  }

  // 2^(byte - 127)
  static F e8m0(const std::byte* p) {
    const U exponent = shift_left<23>(_mm256_cvtepu8_epi32(load_8_bytes(p)));
    return as_float(_mm256_max_epi32(exponent, _mm256_set1_epi32(0x00400000)));  // 2^-127 is subnormal
  }
  // 8-bit floats divided by 256: f16 has the same fields, but a wider exponent with a bias that is 8 more.
  static F e4m3(const std::byte* p) {
    const __m128i high = _mm_unpacklo_epi8(_mm_setzero_si128(), load_8_bytes(p));
    return _mm256_cvtph_ps(_mm_and_si128(_mm_srai_epi16(high, 1), _mm_set1_epi16(short(0xbf80))));
  }

  // Codes 8K .. 8K + 7 of a stream of B-bit codes, which are B bytes of it.
  template <int B, int K>
  static U codes(const std::byte* stream) {
    static constexpr auto kBytes = code_bytes<B, 8>();
    static constexpr auto kShifts = code_shifts<B, 8>();
    const U words = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(load_8_bytes(stream + K * B)), load_words(&kBytes));
    return B == 8 ? words : mask(_mm256_srlv_epi32(words, load_words(&kShifts)), (1u << B) - 1);
  }
  // Bytes that codes<B, 0> .. codes<B, steps - 1> read.
  template <int B>
  static constexpr int codes_read(int steps) {
    return (steps - 1) * B + 8;
  }

  static void transpose4(const float* x, int x_stride, const float* factors, float* out, int out_stride) {
    transpose_4x4(x, x_stride, factors, out, out_stride);
  }
  // 16 floats: the even ones, then the odd ones
  static void deinterleave(const float* x, float* out) {
    const F a = load(x), b = load(x + 8);
    const auto in_order = [](F v) {  // the shuffles below leave a's and b's halves alternating
      return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), _MM_SHUFFLE(3, 1, 2, 0)));
    };
    store(out, in_order(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))));
    store(out + 8, in_order(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1))));
  }
};

}  // namespace

void matmul_avx2(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end) {
  matmul<Avx2>(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
