// The integer matmul with AVX2: products of bytes go by pairs into 16-bit sums.
#if defined(__x86_64__)
#include "backend/cpu/integer_x86.h"

namespace swiftlet {
namespace {

struct Avx2Bytes : Avx2Lanes {
  static constexpr int kTokens = 2;  // of a tile: with two vectors of rows 8 sums of 16 bits, which leaves 8 registers

  // 256 * high + low. A lane of 16 bits holds at most 8 pairs of products, 30,720.
  static V whole(V high, V low) {
    return _mm256_add_epi32(_mm256_madd_epi16(high, _mm256_set1_epi16(256)),
                            _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
  }
  static V row_dot(const Nibbles& codes, const PackedBlock& x) {
    const auto dot = [&](const int8_t* columns) {
      return _mm256_add_epi16(_mm256_maddubs_epi16(codes.even, load_bytes(columns)),
                              _mm256_maddubs_epi16(codes.odd, load_bytes(columns + 32)));
    };
    return whole(dot(x.high), dot(x.low));
  }

  template <int T, int R>
  static void panel_dot(const Panel* panels, const PackedBlock* const* x, V (*sums)[R]) {
    for (int half = 0; half < 2; ++half) {  // the even columns, then the odd ones
      V high[T][R], low[T][R];
      for (int k = 0; k < 8; ++k) {
        V codes[R];
        for (int r = 0; r < R; ++r) codes[r] = panels[r].words[half * 8 + k];
        for (int t = 0; t < T; ++t) {
          const V x_high = four_columns(x[t]->high, half * 8 + k), x_low = four_columns(x[t]->low, half * 8 + k);
          for (int r = 0; r < R; ++r) {
            const V h = _mm256_maddubs_epi16(codes[r], x_high), l = _mm256_maddubs_epi16(codes[r], x_low);
            high[t][r] = k == 0 ? h : _mm256_add_epi16(high[t][r], h);
            low[t][r] = k == 0 ? l : _mm256_add_epi16(low[t][r], l);
          }
        }
      }
      for (int t = 0; t < T; ++t)
        for (int r = 0; r < R; ++r) {
          const V sum = whole(high[t][r], low[t][r]);
          sums[t][r] = half == 0 ? sum : _mm256_add_epi32(sums[t][r], sum);
        }
    }
  }
};

}  // namespace

void matmul_avx2(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end) {
  if (in_integers(w))
    IntegerKernel<Avx2Bytes>(w).run(x, x_stride, tokens, y, y_stride, row_begin, row_end);
  else
    float_matmul_avx2(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
