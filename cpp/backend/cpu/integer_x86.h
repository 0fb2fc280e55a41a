// The vector operations of the integer matmul for 8 lanes of x86-64. Internal linkage, as in integer_kernel.h.
#pragma once

#include "backend/cpu/integer_kernel.h"
#include "backend/cpu/matmul_x86.h"

namespace swiftlet {
namespace {

struct Avx2Lanes {
  using F = __m256;
  using V = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kSets = 1;  // of rows in a tile

  static F set1(float value) { return _mm256_set1_ps(value); }
  static void store(float* values, F v) { _mm256_storeu_ps(values, v); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }  // a * b + c
  static F to_float(V v) { return _mm256_cvtepi32_ps(v); }
  static V load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

  // 8 floats that are stored as `dtype`.
  static F load_as(DType dtype, const std::byte* p) {
    switch (dtype) {
      case DType::BF16:
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(p)), 16));
      case DType::F16:
        return _mm256_cvtph_ps(load_16_bytes(p));
      default:
        return _mm256_castsi256_ps(load_bytes(p));
    }
  }

  // The 4 bytes at `p` in every word.
  static V broadcast(const void* p) {
    int32_t word;
    std::memcpy(&word, p, sizeof(word));
    return _mm256_set1_epi32(word);
  }

  // Of 8 columns the even ones and the odd ones, a byte each. Words of 8-bit codes: of those at `words` and 8 further
  // on.
  struct Codes {
    V even, odd;
  };
  template <int kBits>
  static Codes codes(const std::byte* words) {
    if constexpr (kBits == 8) return {load_bytes(words), load_bytes(words + block_bytes(kBits) / 2)};
    const V mask = _mm256_set1_epi8(0x0f), bytes = load_bytes(words);
    return {_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask)};
  }
};

}  // namespace
}  // namespace swiftlet
