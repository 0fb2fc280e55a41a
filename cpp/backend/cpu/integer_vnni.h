// The integer matmul where an instruction adds products of four bytes to a word. Internal linkage, as in
// integer_kernel.h.
#pragma once

#include "backend/cpu/integer_x86.h"

namespace swiftlet {
namespace {

// q and codes as bytes.
struct ByteColumns : Avx2Lanes {
  static V whole(V high, V low) { return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low); }  // 256 * high + low

  // q = 256 * high + low. As the low nibbles of 32 bytes of codes are the even columns, these come first.
  struct Block {
    int8_t low[kBlock], high[kBlock];
  };
  static PackedSteps pack(const float* x, Block& out) {
    const V low_bytes =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, -1, -1, -1, -1, -1, -1, -1, -1));
    const V high_bytes =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 1, 5, 9, 13, 3, 7, 11, 15));
    V q[4];
    const PackedSteps steps = quantize(x, q);
    // As the low byte is signed, the high one is that of q + 128. Of 8 columns a word of each half of low and high.
    for (V& v : q)
      v = _mm256_or_si256(_mm256_shuffle_epi8(v, low_bytes),
                          _mm256_shuffle_epi8(_mm256_add_epi16(v, _mm256_set1_epi16(128)), high_bytes));
    gather_words(q, &out);
    return steps;
  }

  // The codes of even and odd columns, each a byte.
  struct Nibbles {
    V even, odd;
  };
  static Nibbles nibbles(const std::byte* block) {
    const V mask = _mm256_set1_epi8(0x0f), bytes = load_bytes(block);
    return {_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask)};
  }

  // The codes of 8 rows: in word k those of four columns for each row; first the even columns, then the odd ones.
  struct Panel {
    V words[16];
  };
  static void lay_out(const std::byte* const* rows, Panel& panel) {
    V even[8], odd[8];
    for (int i = 0; i < 8; ++i) {
      const Nibbles codes = nibbles(rows[i]);
      even[i] = codes.even;
      odd[i] = codes.odd;
    }
    transpose_8x8(even, panel.words);
    transpose_8x8(odd, panel.words + 8);
  }
};

// Dot::add(sum, codes, x): to each word of `sum` the products of its four bytes; those of codes are unsigned.
template <class Dot>
struct VnniBytes : ByteColumns {
  static constexpr int kTokens = Dot::kTokens;  // of a tile

  static V row_dot(const std::byte* block, const Block& x) {
    const Nibbles codes = nibbles(block);
    const auto dot = [&](const int8_t* columns) {
      const V even = Dot::add(_mm256_setzero_si256(), codes.even, load_bytes(columns));
      return Dot::add(even, codes.odd, load_bytes(columns + 32));
    };
    return whole(dot(x.high), dot(x.low));
  }

  template <int T, int R>
  static void panel_dot(const Panel* panels, const Block* const* x, V (*sums)[R]) {
    V high[T][R], low[T][R];
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) high[t][r] = low[t][r] = _mm256_setzero_si256();
    for (int k = 0; k < 16; ++k) {
      V codes[R];
      for (int r = 0; r < R; ++r) codes[r] = panels[r].words[k];
      for (int t = 0; t < T; ++t) {
        const V x_high = broadcast(x[t]->high + 4 * k), x_low = broadcast(x[t]->low + 4 * k);
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
