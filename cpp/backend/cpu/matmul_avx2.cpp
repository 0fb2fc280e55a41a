#if defined(__x86_64__)
#include <immintrin.h>

#include "backend/cpu/matmul_kernel.h"

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

  static float sum(F v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }

  static U load_words(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
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
  static U lookup(const uint8_t* table, U bytes) {  // of bytes below 16
    const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), bytes);
  }

  static F load_f32(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  static F load_f16(const std::byte* p) { return _mm256_cvtph_ps(load_halves(p)); }
  static F load_bf16(const std::byte* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_halves(p)), 16));
  }

  // The lanes in `parts` equal parts, part i filled with values[i]. Reads 8 floats.
  static F spread(const float* values, int parts) {
    const __m256i part =
        _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(parts)), 3);
    return _mm256_permutevar8x32_ps(load(values), part);
  }

  // 2^(byte - 127)
  static F e8m0(const std::byte* p) {
    const U exponent = _mm256_slli_epi32(_mm256_cvtepu8_epi32(load_bytes(p)), 23);
    return as_float(_mm256_max_epi32(exponent, _mm256_set1_epi32(0x00400000)));  // 2^-127 is subnormal
  }
  // 8-bit floats divided by 256: an f16 has the same fields, its exponent a bias larger by 8.
  static F e4m3(const std::byte* p) {
    const __m128i high = _mm_unpacklo_epi8(_mm_setzero_si128(), load_bytes(p));
    return _mm256_cvtph_ps(_mm_and_si128(_mm_srai_epi16(high, 1), _mm_set1_epi16(short(0xbf80))));
  }

  // Codes 8K .. 8K + 7 of a stream of B-bit codes: they are B bytes. Each lane picks the two bytes its code lies in.
  template <int B, int K>
  static U codes(const std::byte* stream) {
    static constexpr auto kBytes = [] {
      std::array<uint8_t, 32> pick;
      pick.fill(0x80);  // zero
      for (int lane = 0; lane < 8; ++lane) {
        pick[4 * lane] = uint8_t(lane * B / 8);
        if (lane * B % 8 + B > 8) pick[4 * lane + 1] = uint8_t(lane * B / 8 + 1);
      }
      return pick;
    }();
    const U bytes = _mm256_set1_epi64x(swiftlet::load<int64_t>(stream + K * B));
    const U pairs = _mm256_shuffle_epi8(bytes, load_words(reinterpret_cast<const std::byte*>(kBytes.data())));
    if constexpr (B == 8) return pairs;
    const U shifts = _mm256_setr_epi32(0, B % 8, 2 * B % 8, 3 * B % 8, 4 * B % 8, 5 * B % 8, 6 * B % 8, 7 * B % 8);
    return mask(_mm256_srlv_epi32(pairs, shifts), (1u << B) - 1);
  }
  // Bytes that codes<B, 0> .. codes<B, steps - 1> read.
  template <int B>
  static constexpr int codes_read(int steps) {
    return (steps - 1) * B + 8;
  }

  // out[j][i] = x[i][j] * factors[j], 4 x 4
  static void transpose4(const float* x, int x_stride, const float* factors, float* out, int out_stride) {
    __m128 r0 = _mm_loadu_ps(x), r1 = _mm_loadu_ps(x + x_stride);
    __m128 r2 = _mm_loadu_ps(x + 2 * x_stride), r3 = _mm_loadu_ps(x + 3 * x_stride);
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    _mm_storeu_ps(out, _mm_mul_ps(r0, _mm_set1_ps(factors[0])));
    _mm_storeu_ps(out + out_stride, _mm_mul_ps(r1, _mm_set1_ps(factors[1])));
    _mm_storeu_ps(out + 2 * out_stride, _mm_mul_ps(r2, _mm_set1_ps(factors[2])));
    _mm_storeu_ps(out + 3 * out_stride, _mm_mul_ps(r3, _mm_set1_ps(factors[3])));
  }
  // 16 floats: the even ones, then the odd ones
  static void deinterleave(const float* x, float* out) {
    const F a = load(x), b = load(x + 8);
    const auto join = [](F v) {
      return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), _MM_SHUFFLE(3, 1, 2, 0)));
    };
    store(out, join(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0))));
    store(out + 8, join(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1))));
  }

 private:
  static __m128i load_bytes(const std::byte* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
  static __m128i load_halves(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
};

}  // namespace

void matmul_avx2(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end) {
  matmul<Avx2>(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
