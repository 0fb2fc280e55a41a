#if defined(__x86_64__)
#include "backend/cpu/matmul.h"

namespace swiftlet {

void matmul_avx512(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                   int64_t row_begin, int64_t row_end) {
  matmul_reference(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
