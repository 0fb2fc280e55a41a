// The integer matmul with AVX-512 VNNI, which adds products of four bytes to a word.
#if defined(__x86_64__)
#include "backend/cpu/integer_avx512.h"

namespace swiftlet {
namespace {

struct Avx512Vnni : Avx512Lanes {
  static constexpr int kTokens = 8;  // of a tile: 16 of the 32 registers for sums

  // To each word of `sum` the products of four codes of `row` and the four bytes at `columns`. gcc 12 does not know
  // that the instruction can take these from memory, and moves every sum to another register.
  static void add(V& sum, V row, const int8_t* columns) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sum)
            : "v"(row), "m"(*reinterpret_cast<const int8_t (*)[4]>(columns)));
  }

  template <int kBits, int T>
  [[gnu::always_inline]] static void dot(const std::byte* words, const PackedBlock* const* x, V (*sums)[1]) {
    V high[T], low[T];
    for (int t = 0; t < T; ++t) high[t] = low[t] = _mm512_setzero_si512();
    for (int k = 0; k < 8; ++k) {
      const Codes rows = codes<kBits>(words + 64 * k);
      for (int t = 0; t < T; ++t) {
        add(high[t], rows.even, x[t]->high + 4 * k);
        add(low[t], rows.even, x[t]->low + 4 * k);
        add(high[t], rows.odd, x[t]->high + 32 + 4 * k);
        add(low[t], rows.odd, x[t]->low + 32 + 4 * k);
      }
    }
    for (int t = 0; t < T; ++t) sums[t][0] = whole(high[t], low[t]);
  }
};

}  // namespace

void integer_matmul_avx512vnni(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                               int64_t row_begin, int64_t row_end) {
  IntegerKernel<Avx512Vnni>(w, x).run(tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
