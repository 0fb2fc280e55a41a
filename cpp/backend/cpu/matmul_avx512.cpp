// Matmul for x86-64 with AVX-512 F, BW, VL and DQ.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns of its own AVX-512 header
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "backend/cpu/matmul_kernel.h"
#include "backend/cpu/matmul_x86.h"

namespace swiftlet {
namespace {

struct Avx512 {
  using F = __m512;   // 16 floats
  using U = __m512i;  // 16 words
  static constexpr int kLanes = 16;
  static constexpr int kTokens = 6;  // of a tile: with 4 rows 24 sums, which leaves 8 of the 32 registers

  static F zero() { return _mm512_setzero_ps(); }
  static F set1(float value) { return _mm512_set1_ps(value); }
  static F broadcast(const float* value) { return _mm512_set1_ps(*value); }
  static F load(const float* values) { return _mm512_loadu_ps(values); }
  static void store(float* values, F v) { _mm512_storeu_ps(values, v); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
  static float sum(F v) { return sum_of_8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))); }

  static U load_words(const void* p) { return _mm512_loadu_si512(p); }
  static U mask(U v, uint32_t bits) { return _mm512_and_si512(v, _mm512_set1_epi32(int(bits))); }
  template <int N>
  static U shift_left(U v) {
    return _mm512_slli_epi32(v, N);
  }
  template <int N>
  static U shift_right(U v) {
    return _mm512_srli_epi32(v, N);
  }
  static F to_float(U v) { return _mm512_cvtepi32_ps(v); }  // of words below 2^31
  static F as_float(U v) { return _mm512_castsi512_ps(v); }
  // table[byte] for bytes below 16
  static U lookup(const uint8_t* table, U bytes) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load_16_bytes(table)), bytes);
  }

  static F load_f32(const std::byte* p) { return _mm512_loadu_ps(p); }
  static F load_f16(const std::byte* p) { return _mm512_cvtph_ps(load_32_bytes(p)); }
  static F load_bf16(const std::byte* p) { return as_float(shift_left<16>(_mm512_cvtepu16_epi32(load_32_bytes(p)))); }

  // The lanes in `parts` equal parts, part i filled with values[i]. Reads 16 floats.
  static F spread(const float* values, int parts) {
    const U lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(shift_right<4>(_mm512_mullo_epi32(lanes, _mm512_set1_epi32(parts))), load(values));
  }

  // 2^(byte - 127)
  static F e8m0(const std::byte* p) {
    const U exponent = shift_left<23>(_mm512_cvtepu8_epi32(load_16_bytes(p)));
    return as_float(_mm512_max_epi32(exponent, _mm512_set1_epi32(0x00400000)));  // 2^-127 is subnormal
  }
  // 8-bit floats divided by 256: f16 has the same fields, but a wider exponent with a bias that is 8 more.
  static F e4m3(const std::byte* p) {
    const __m256i high = _mm256_slli_epi16(_mm256_cvtepu8_epi16(load_16_bytes(p)), 8);
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_srai_epi16(high, 1), _mm256_set1_epi16(short(0xbf80))));
  }

  // Codes 16K .. 16K + 15 of a stream of B-bit codes, which are 2B bytes of it.
  template <int B, int K>
  static U codes(const std::byte* stream) {
    static constexpr auto kBytes = code_bytes<B, 16>();
    static constexpr auto kShifts = code_shifts<B, 16>();
    const U bytes = _mm512_broadcast_i32x4(load_16_bytes(stream + K * 2 * B));
    const U words = _mm512_shuffle_epi8(bytes, load_words(&kBytes));
    return B == 8 ? words : mask(_mm512_srlv_epi32(words, load_words(&kShifts)), (1u << B) - 1);
  }
  // Bytes that codes<B, 0> .. codes<B, steps - 1> read.
  template <int B>
  static constexpr int codes_read(int steps) {
    return (steps - 1) * 2 * B + 16;
  }

  static void transpose4(const float* x, int x_stride, const float* factors, float* out, int out_stride) {
    transpose_4x4(x, x_stride, factors, out, out_stride);
  }
  // 32 floats: the even ones, then the odd ones
  static void deinterleave(const float* x, float* out) {
    const F a = load(x), b = load(x + 16);
    const U even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    store(out, _mm512_permutex2var_ps(a, even, b));
    store(out + 16, _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b));
  }

 private:
  static __m256i load_32_bytes(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
};

}  // namespace

void matmul_avx512(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                   int64_t row_begin, int64_t row_end) {
  matmul<Avx512>(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
