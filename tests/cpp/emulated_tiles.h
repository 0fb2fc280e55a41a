#pragma once

#include "backend/cpu/matmul.h"

namespace swiftlet::test {

// On x86-64; needs AVX2. Matrices of integer_kernel.h only.
void matmul_emulated_tiles(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                           int64_t row_begin, int64_t row_end);

}  // namespace swiftlet::test
