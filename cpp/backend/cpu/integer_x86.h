// What the integer kernels of x86-64 share. Internal linkage, as in integer_kernel.h.
#pragma once

#include <bit>
#include <limits>

#include "backend/cpu/integer_kernel.h"
#include "backend/cpu/matmul_x86.h"

namespace swiftlet {
namespace {

// out[j], lane i: in[i], lane j
inline void transpose_8x8(const __m256i* in, __m256i* out) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32(in[i], in[i + 1]);
    a[i + 1] = _mm256_unpackhi_epi32(in[i], in[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm256_unpacklo_epi64(a[i + j], a[i + j + 2]);
      b[i + 2 * j + 1] = _mm256_unpackhi_epi64(a[i + j], a[i + j + 2]);
    }
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    out[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

struct Avx2Lanes {
  using F = __m256;
  using V = __m256i;
  static constexpr int kLanes = 8;

  static F zero() { return _mm256_setzero_ps(); }
  static F set1(float value) { return _mm256_set1_ps(value); }
  static F load(const float* values) { return _mm256_loadu_ps(values); }
  static void store(float* values, F v) { _mm256_storeu_ps(values, v); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }  // a * b + c
  static F to_float(V v) { return _mm256_cvtepi32_ps(v); }

  static V load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

  static void transpose(const V* in, V* out) { transpose_8x8(in, out); }

  // The 4 bytes at `p` in every word.
  static V broadcast(const void* p) {
    int32_t word;
    std::memcpy(&word, p, sizeof(word));
    return _mm256_set1_epi32(word);
  }

  // q of a block's columns in their order, 16 to a vector.
  static PackedSteps quantize(const float* x, V* q) {
    const V magnitude = _mm256_set1_epi32(0x7fffffff);
    V largest = _mm256_setzero_si256();  // as whole numbers, where NaN and infinity are above all others
    for (int i = 0; i < 8; ++i) largest = _mm256_max_epi32(largest, _mm256_and_si256(load_bytes(x + 8 * i), magnitude));
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
    const auto bits = uint32_t(_mm_cvtsi128_si32(most));
    if (bits >= 0x7f800000) {
      for (int i = 0; i < 4; ++i) q[i] = _mm256_setzero_si256();
      const float nan = std::numeric_limits<float>::quiet_NaN();
      return {nan, nan};
    }
    const float step = std::max(std::bit_cast<float>(bits), kLeastLargest) / kMaxQ;
    const F inverse = set1(1 / step);
    V sum = _mm256_setzero_si256();
    for (int i = 0; i < 4; ++i) {
      const V a = _mm256_cvtps_epi32(mul(load(x + 16 * i), inverse));
      const V b = _mm256_cvtps_epi32(mul(load(x + 16 * i + 8), inverse));
      sum = _mm256_add_epi32(sum, _mm256_add_epi32(a, b));
      q[i] = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    }
    __m128i total = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0x4e));
    total = _mm_add_epi32(total, _mm_shuffle_epi32(total, 0xb1));
    return {step, step * float(_mm_cvtsi128_si32(total))};
  }

  // Words j of the 8 halves of 4 vectors, in the order of the halves, at out + 32 j bytes.
  static void gather_words(const V* in, void* out) {
    const V low_01 = _mm256_unpacklo_epi32(in[0], in[1]), low_23 = _mm256_unpacklo_epi32(in[2], in[3]);
    const V high_01 = _mm256_unpackhi_epi32(in[0], in[1]), high_23 = _mm256_unpackhi_epi32(in[2], in[3]);
    const auto put = [&](int j, V v) {  // the lower halves come first in it, then the upper ones
      v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
      _mm256_storeu_si256(static_cast<__m256i*>(out) + j, v);
    };
    put(0, _mm256_unpacklo_epi64(low_01, low_23));
    put(1, _mm256_unpackhi_epi64(low_01, low_23));
    put(2, _mm256_unpacklo_epi64(high_01, high_23));
    put(3, _mm256_unpackhi_epi64(high_01, high_23));
  }

  // Sums of neighbouring lanes (for B = 8: of neighbouring pairs of lanes), those of a and of b by turns.
  template <int B>
  static V pair_sums(V a, V b) {
    constexpr int kOfB = B == 4 ? 0xaa : 0xcc, kSwap = B == 4 ? 0xb1 : 0x4e;
    const V swapped = _mm256_shuffle_epi32(_mm256_blend_epi32(b, a, kOfB), kSwap);
    return _mm256_add_epi32(_mm256_blend_epi32(a, b, kOfB), swapped);
  }
  // Lane i: the sum of all lanes of dot(i).
  template <class Dot>
  [[gnu::always_inline]] static V sum_rows(const Dot& dot) {
    const auto four = [&](auto i) __attribute__((always_inline)) {
      const V first = pair_sums<4>(dot(i), dot(i + 1));
      return pair_sums<8>(first, pair_sums<4>(dot(i + 2), dot(i + 3)));
    };
    const V low = four(0), high = four(4);
    return _mm256_add_epi32(_mm256_blend_epi32(low, high, 0xf0), _mm256_permute2x128_si256(low, high, 0x21));
  }

  // out[g][i] = group g of row i, for `count` groups (at most kChunkBlocks) of 8 rows.
  static void convert(DType dtype, const std::byte* const* rows, int count, float (*out)[8]) {
    const auto convert_all = [&](int size, auto load) {
      for (int first = 0; first < count; first += 8) {
        V in[8], words[8];
        const int n = std::min(8, count - first);
        for (int i = 0; i < 8; ++i) {
          const std::byte* from = rows[i] + first * size;
          std::byte padded[32] = {};
          if (n < 8) {
            std::memcpy(padded, from, size_t(n * size));
            from = padded;
          }
          in[i] = load(from);
        }
        transpose_8x8(in, words);
        // All 8, as kChunkBlocks leaves room for them: gcc makes a slow copy of a loop to n.
        for (int g = 0; g < 8; ++g) _mm256_store_si256(reinterpret_cast<__m256i*>(out[first + g]), words[g]);
      }
    };
    switch (dtype) {
      case DType::BF16:
        return convert_all(
            2, [](const std::byte* p) { return _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(p)), 16); });
      case DType::F16:
        return convert_all(2,
                           [](const std::byte* p) { return _mm256_castps_si256(_mm256_cvtph_ps(load_16_bytes(p))); });
      default:
        return convert_all(4, [](const std::byte* p) { return load_bytes(p); });
    }
  }
};

}  // namespace
}  // namespace swiftlet
