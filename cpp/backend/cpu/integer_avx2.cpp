// The integer matmul with AVX2. Its products of bytes have to be widened; those of 16-bit words come as sums of two.
#if defined(__x86_64__)
#include "backend/cpu/integer_x86.h"

namespace swiftlet {
namespace {

struct Avx2Words : Avx2Lanes {
  static constexpr int kTokens = 4;  // of a tile: with two vectors of rows 8 of the 16 registers for sums

  // 16 words of 16 bits hold 64 codes. q[16j] .. q[16j + 15] go with nibble j of each.
  struct Block {
    int16_t q[kBlock];
  };
  static PackedSteps pack(const float* x, Block& out) {
    const V nibble_order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    V q[4];
    const PackedSteps steps = quantize(x, q);
    for (V& v : q) v = _mm256_shuffle_epi8(v, nibble_order);
    gather_words(q, &out);
    return steps;
  }

  // Nibbles in the middle are not shifted down before they are multiplied, but their sums afterwards.
  static V row_dot(const std::byte* block, const Block& x) {
    const V words = load_bytes(block);
    const auto dot = [&](V codes, int j) { return _mm256_madd_epi16(codes, load_bytes(x.q + 16 * j)); };
    const auto masked = [&](int mask) { return _mm256_and_si256(words, _mm256_set1_epi16(short(mask))); };
    const V second = _mm256_srai_epi32(dot(masked(0x00f0), 1), 4), third = _mm256_srai_epi32(dot(masked(0x0f00), 2), 8);
    const V outer = _mm256_add_epi32(dot(masked(0x000f), 0), dot(_mm256_srli_epi16(words, 12), 3));
    return _mm256_add_epi32(outer, _mm256_add_epi32(second, third));
  }

  // The codes of 8 rows, 16 bits each: in word 8j + k those of nibble j of words 2k and 2k + 1 for each row.
  struct Panel {
    V words[32];
  };
  static void lay_out(const std::byte* const* rows, Panel& panel) {
    for (int j = 0; j < 4; ++j) {
      V codes[8];
      for (int i = 0; i < 8; ++i)
        codes[i] =
            _mm256_and_si256(_mm256_srl_epi16(load_bytes(rows[i]), _mm_cvtsi32_si128(4 * j)), _mm256_set1_epi16(0x0f));
      transpose_8x8(codes, panel.words + 8 * j);
    }
  }
  template <int T, int R>
  static void panel_dot(const Panel* panels, const Block* const* x, V (*sums)[R]) {
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < R; ++r) sums[t][r] = _mm256_setzero_si256();
    const auto add = [&](int k) __attribute__((always_inline)) {
      V codes[R];
      for (int r = 0; r < R; ++r) {
        codes[r] = panels[r].words[k];
        __asm__("" : "+x"(codes[r]));  // in a register for all tokens, or gcc loads it again for each
      }
      for (int t = 0; t < T; ++t) {
        const V q = broadcast(x[t]->q + 2 * k);
        for (int r = 0; r < R; ++r) sums[t][r] = _mm256_add_epi32(sums[t][r], _mm256_madd_epi16(codes[r], q));
      }
    };
    for (int k = 0; k < 32; k += 4) {
      add(k);
      add(k + 1);
      add(k + 2);
      add(k + 3);
    }
  }
};

}  // namespace

void matmul_avx2(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end) {
  if (in_integers(w))
    IntegerKernel<Avx2Words>(w).run(x, x_stride, tokens, y, y_stride, row_begin, row_end);
  else
    float_matmul_avx2(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
