// What the kernels of AVX2 and AVX-512 share. Internal linkage, as in matmul_kernel.h.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstdint>

#include "backend/cpu/codec.h"

namespace swiftlet {
namespace {

inline __m128i load_8_bytes(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
inline __m128i load_16_bytes(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

inline float sum_of_8(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

// out[j][i] = x[i][j] * factors[j], 4 x 4
inline void transpose_4x4(const float* x, int x_stride, const float* factors, float* out, int out_stride) {
  __m128 r0 = _mm_loadu_ps(x), r1 = _mm_loadu_ps(x + x_stride);
  __m128 r2 = _mm_loadu_ps(x + 2 * x_stride), r3 = _mm_loadu_ps(x + 3 * x_stride);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(out, _mm_mul_ps(r0, _mm_set1_ps(factors[0])));
  _mm_storeu_ps(out + out_stride, _mm_mul_ps(r1, _mm_set1_ps(factors[1])));
  _mm_storeu_ps(out + 2 * out_stride, _mm_mul_ps(r2, _mm_set1_ps(factors[2])));
  _mm_storeu_ps(out + 3 * out_stride, _mm_mul_ps(r3, _mm_set1_ps(factors[3])));
}

// For a byte shuffle: the one or two bytes in which each of Lanes consecutive B-bit codes lies, as 32-bit words.
template <int B, int Lanes>
constexpr std::array<uint8_t, 4 * Lanes> code_bytes() {
  std::array<uint8_t, 4 * Lanes> pick{};
  for (int lane = 0; lane < Lanes; ++lane) {
    const int bit = lane * B;
    const bool two = bit % 8 + B > 8;
    pick[size_t(4 * lane)] = uint8_t(bit / 8);
    pick[size_t(4 * lane + 1)] = two ? uint8_t(bit / 8 + 1) : 0x80;  // 0x80: a zero byte
    pick[size_t(4 * lane + 2)] = pick[size_t(4 * lane + 3)] = 0x80;
  }
  return pick;
}

// How far each code is to be shifted down then.
template <int B, int Lanes>
constexpr std::array<int32_t, Lanes> code_shifts() {
  std::array<int32_t, Lanes> shifts{};
  for (int lane = 0; lane < Lanes; ++lane) shifts[size_t(lane)] = lane * B % 8;
  return shifts;
}

}  // namespace
}  // namespace swiftlet
