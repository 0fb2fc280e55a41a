// The integer matmul with AVX-VNNI, which processors without AVX-512 have.
#if defined(__x86_64__)
#include "backend/cpu/integer_vnni.h"

namespace swiftlet {
namespace {

struct AvxVnni {
  static __m256i add(__m256i sum, __m256i codes, __m256i x) { return _mm256_dpbusd_avx_epi32(sum, codes, x); }
};

}  // namespace

void integer_matmul_avxvnni(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                            int64_t row_begin, int64_t row_end) {
  IntegerKernel<VnniBytes<AvxVnni>>(w, x, y, y_stride, row_begin, row_end).run(tokens);
}

}  // namespace swiftlet
#endif
