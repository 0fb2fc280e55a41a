// The integer matmul where an instruction adds products of four bytes to a word, on 8 lanes. Internal linkage, as in
// integer_kernel.h.
#pragma once

#include "backend/cpu/integer_x86.h"

namespace swiftlet {
namespace {

// Dot::add(sum, codes, x): to each word of `sum` the products of its four bytes; those of codes are unsigned.
template <class Dot>
struct VnniBytes : Avx2Lanes {
  static constexpr int kTokens = 2;  // of a tile: with two vectors of rows 8 of the 16 registers for sums

  template <int kBits, int T>
  [[gnu::always_inline]] static void dot(const std::byte* const* codes_of, const PackedBlock* const* x,
                                         V (*sums)[1][2]) {
    const std::byte* words = codes_of[0];
    V high[T][2], low[T][2];
    for (int t = 0; t < T; ++t)
      for (int v = 0; v < 2; ++v) high[t][v] = low[t][v] = _mm256_setzero_si256();
    for (int k = 0; k < 8; ++k) {
      const Codes rows[2] = {codes<kBits>(words + 64 * k), codes<kBits>(words + 64 * k + 32)};
      for (int t = 0; t < T; ++t) {
        const V high_even = broadcast(x[t]->high + 4 * k), high_odd = broadcast(x[t]->high + 32 + 4 * k);
        const V low_even = broadcast(x[t]->low + 4 * k), low_odd = broadcast(x[t]->low + 32 + 4 * k);
        for (int v = 0; v < 2; ++v) {
          high[t][v] = Dot::add(Dot::add(high[t][v], rows[v].even, high_even), rows[v].odd, high_odd);
          low[t][v] = Dot::add(Dot::add(low[t][v], rows[v].even, low_even), rows[v].odd, low_odd);
        }
      }
    }
    for (int t = 0; t < T; ++t)
      for (int v = 0; v < 2; ++v) sums[t][0][v] = _mm256_add_epi32(_mm256_slli_epi32(high[t][v], 8), low[t][v]);
  }
};

}  // namespace
}  // namespace swiftlet
