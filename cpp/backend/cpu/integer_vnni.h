// The integer matmul where an instruction adds products of four bytes to a word. Internal linkage, as in
// integer_kernel.h.
#pragma once

#include "backend/cpu/integer_x86.h"

namespace swiftlet {
namespace {

// Dot::add(sum, codes, x): to each word of `sum` the products of its four bytes; those of codes are unsigned.
template <class Dot>
struct VnniBytes : Avx2Lanes {
  static constexpr int kTokens = Dot::kTokens;  // of a tile

  static V whole(V high, V low) { return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low); }  // 256 * high + low

  static V row_dot(const Nibbles& codes, const PackedBlock& x) {
    const auto dot = [&](const int8_t* columns) {
      const V even = Dot::add(_mm256_setzero_si256(), codes.even, load_bytes(columns));
      return Dot::add(even, codes.odd, load_bytes(columns + 32));
    };
    return whole(dot(x.high), dot(x.low));
  }

  template <int T, int R>
  static void panel_dot(const Panel* panels, const PackedBlock* const* x, V (*sums)[R]) {
    V high[T][R], low[T][R];
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) high[t][r] = low[t][r] = _mm256_setzero_si256();
    for (int k = 0; k < 16; ++k) {
      V codes[R];
      for (int r = 0; r < R; ++r) codes[r] = panels[r].words[k];
      for (int t = 0; t < T; ++t) {
        const V x_high = four_columns(x[t]->high, k), x_low = four_columns(x[t]->low, k);
        for (int r = 0; r < R; ++r) {
          high[t][r] = Dot::add(high[t][r], codes[r], x_high);
          low[t][r] = Dot::add(low[t][r], codes[r], x_low);
        }
      }
    }
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) sums[t][r] = whole(high[t][r], low[t][r]);
  }
};

}  // namespace
}  // namespace swiftlet
