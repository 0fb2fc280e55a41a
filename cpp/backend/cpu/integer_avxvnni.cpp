// The integer matmul with AVX-VNNI, which processors without AVX-512 have.
#if defined(__x86_64__)
#include "backend/cpu/integer_vnni.h"

namespace swiftlet {
namespace {

struct AvxVnni {
  static constexpr int kTokens = 2;  // with two vectors of rows 8 of the 16 registers for sums
  static __m256i add(__m256i sum, __m256i codes, __m256i x) { return _mm256_dpbusd_avx_epi32(sum, codes, x); }
};

}  // namespace

void matmul_avxvnni(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                    int64_t row_begin, int64_t row_end) {
  if (in_integers(w))
    IntegerKernel<VnniBytes<AvxVnni>>(w).run(x, x_stride, tokens, y, y_stride, row_begin, row_end);
  else
    float_matmul_avx2(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
