// The matmul of processors with VNNI where there is only AVX2: its one instruction is made of others.
#if defined(__x86_64__)
#include "tests/cpp/emulated_vnni.h"

#include "backend/cpu/integer_vnni.h"

namespace swiftlet::test {
namespace {

struct Emulated {
  static __m256i add(__m256i sum, __m256i codes, __m256i x) {
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0xff)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(x, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
  }
};

}  // namespace

void integer_matmul_emulated_vnni(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                                  int64_t row_begin, int64_t row_end) {
  IntegerKernel<VnniBytes<Emulated>>(w, x, y, y_stride, row_begin, row_end).run(tokens);
}

}  // namespace swiftlet::test
#endif
