// The integer matmul with AVX-512 VNNI, which adds products of four bytes to a word.
#if defined(__x86_64__)
#include "backend/cpu/integer_avx512.h"

namespace swiftlet {
namespace {

struct Avx512Vnni : Avx512Lanes {
  static constexpr int kSets = 2;    // of rows in a tile, which share what is loaded of x
  static constexpr int kTokens = 6;  // of a tile: 24 of the 32 registers for sums

  // To each word of `sum` the products of four codes of `row` and four bytes of x. (From the intrinsic gcc 12 makes
  // copies of sums.)
  static void add(V& sum, V row, V columns) { __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(columns)); }

  // The 4 bytes at `p` in every word. Not as an operand of the product: a load for each product would be the limit.
  static V broadcast(const int8_t* p) {
    V words;
    __asm__("vpbroadcastd %1, %0" : "=v"(words) : "m"(*reinterpret_cast<const int8_t (*)[4]>(p)));
    return words;
  }

  template <int kBits, int T>
  [[gnu::always_inline]] static void dot(const std::byte* const* words, const PackedBlock* const* x,
                                         V (*sums)[kSets][1]) {
    V high[T][kSets], low[T][kSets];
    for (int t = 0; t < T; ++t)
      for (int s = 0; s < kSets; ++s) high[t][s] = low[t][s] = _mm512_setzero_si512();
    for (int k = 0; k < 8; ++k) {
      Codes rows[kSets];
      for (int s = 0; s < kSets; ++s) rows[s] = codes<kBits>(words[s] + 64 * k);
      for (int t = 0; t < T; ++t) {
        const auto each = [&](const int8_t* columns, V Codes::* which, V* sum) __attribute__((always_inline)) {
          const V q = broadcast(columns);
          for (int s = 0; s < kSets; ++s) add(sum[s], rows[s].*which, q);
        };
        each(x[t]->high + 4 * k, &Codes::even, high[t]);
        each(x[t]->low + 4 * k, &Codes::even, low[t]);
        each(x[t]->high + 32 + 4 * k, &Codes::odd, high[t]);
        each(x[t]->low + 32 + 4 * k, &Codes::odd, low[t]);
      }
    }
    for (int t = 0; t < T; ++t)
      for (int s = 0; s < kSets; ++s) sums[t][s][0] = whole(high[t][s], low[t][s]);
  }
};

}  // namespace

void integer_matmul_avx512vnni(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                               int64_t row_begin, int64_t row_end) {
  IntegerKernel<Avx512Vnni>(w, x, y, y_stride, row_begin, row_end).run(tokens);
}

}  // namespace swiftlet
#endif
