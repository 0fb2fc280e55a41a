// The vector operations of the integer matmul for 16 lanes of AVX-512. Internal linkage, as in integer_kernel.h.
#pragma once

#include "backend/cpu/integer_kernel.h"
#include "backend/cpu/matmul_x86.h"

namespace swiftlet {
namespace {

struct Avx512Lanes {
  using F = __m512;
  using V = __m512i;
  static constexpr int kLanes = 16;

  static F set1(float value) { return _mm512_set1_ps(value); }
  static F load(const float* values) { return _mm512_loadu_ps(values); }
  static void store(float* values, F v) { _mm512_storeu_ps(values, v); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }  // a * b + c
  static F to_float(V v) { return _mm512_cvtepi32_ps(v); }
  static V load_bytes(const void* p) { return _mm512_loadu_si512(p); }
  static V whole(V high, V low) { return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low); }  // 256 * high + low

  // 16 floats that are stored as `dtype`.
  static F load_as(DType dtype, const std::byte* p) {
    switch (dtype) {
      case DType::BF16: {
        const __m256i stored = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(stored), 16));
      }
      case DType::F16:
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
      default:
        return _mm512_loadu_ps(p);
    }
  }

  // Of 8 columns the even ones and the odd ones, a byte each. Words of 8-bit codes: of those at `words` and 8 further
  // on.
  struct Codes {
    V even, odd;
  };
  template <int kBits>
  static Codes codes(const std::byte* words) {
    if constexpr (kBits == 8) return {load_bytes(words), load_bytes(words + block_bytes(kBits) / 2)};
    const V mask = _mm512_set1_epi8(0x0f), bytes = load_bytes(words);
    return {_mm512_and_si512(bytes, mask), _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask)};
  }
};

}  // namespace
}  // namespace swiftlet
