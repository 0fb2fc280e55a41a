// The integer matmul with AVX-512 VNNI on vectors of 32 bytes.
#if defined(__x86_64__)
#include "backend/cpu/integer_vnni.h"

namespace swiftlet {
namespace {

struct Avx512Vnni {
  static constexpr int kTokens = 4;  // with two vectors of rows 16 of the 32 registers for sums
  static __m256i add(__m256i sum, __m256i codes, __m256i x) { return _mm256_dpbusd_epi32(sum, codes, x); }
};

}  // namespace

void matmul_avx512vnni(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                       int64_t row_begin, int64_t row_end) {
  if (in_integers(w))
    IntegerKernel<VnniBytes<Avx512Vnni>>(w).run(x, x_stride, tokens, y, y_stride, row_begin, row_end);
  else
    matmul_avx512(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
