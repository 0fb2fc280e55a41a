// y = x W^T for every codec, in f32. 4-bit and 8-bit ones have a faster way where instructions multiply bytes:
// integers.h.
#pragma once

#include <cstdint>

#include "backend/matrix.h"

namespace swiftlet {

// Rows row_begin .. row_end-1 of W applied to `tokens` inputs:
//   y[t * y_stride + r] = sum_c x[t * x_stride + c] * w[r, c]  (+ bias[r])
// x f32, rows of x 4-byte aligned; y f32. Scales, biases and weights may be only aligned to their own element size.
// The sum of one output element runs in the same order whatever `tokens`, row_begin and row_end are: its bits depend on
// x's row and W's row alone. The rows lie as stored, not interleaved.
using MatmulFn = void (*)(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                          int64_t row_begin, int64_t row_end);

// out[c] = w[row, c] in f32.
void dequantize_row(const Matrix& w, int64_t row, float* out);

void matmul_reference(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                      int64_t row_begin, int64_t row_end);
// Each exists where the compiler targets its architecture.
void matmul_avx2(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end);
void matmul_avx512(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                   int64_t row_begin, int64_t row_end);
void matmul_neon(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end);

}  // namespace swiftlet
