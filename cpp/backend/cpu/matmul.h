// y = x W^T for every codec: the one kernel family that decides the speed of decode and prefill.
#pragma once

#include <cstdint>

#include "backend/matrix.h"

namespace swiftlet {

// Rows row_begin .. row_end-1 of W applied to `tokens` inputs:
//   y[t * y_stride + r] = sum_c x[t * x_stride + c] * w[r, c]  (+ bias[r])
// x f32, rows of x 4-byte aligned; y f32. Scales, biases and weights may be only aligned to their own element size.
// The sum of one output element runs in the same order whatever `tokens`, row_begin and row_end are: its bits depend on
// x's row and W's row alone. Where integer_kernel.h takes 4-bit matrices, x counts with 16 bits: an element of it is
// off by at most 1/65,024 of the largest of its 64 columns (or of 1e-30, if that is larger). All else is f32.
using MatmulFn = void (*)(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                          int64_t row_begin, int64_t row_end);

// out[c] = w[row, c] in f32.
void dequantize_row(const Matrix& w, int64_t row, float* out);

void matmul_reference(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                      int64_t row_begin, int64_t row_end);
// Each exists where the compiler targets its architecture; cpu_isas() tells what this machine runs.
void matmul_avx2(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end);
void matmul_avxvnni(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                    int64_t row_begin, int64_t row_end);
void matmul_avx512(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                   int64_t row_begin, int64_t row_end);
void matmul_avx512vnni(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                       int64_t row_begin, int64_t row_end);
void matmul_amx(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                int64_t row_begin, int64_t row_end);
void matmul_neon(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                 int64_t row_begin, int64_t row_end);
void matmul_dotprod(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                    int64_t row_begin, int64_t row_end);

// The part of matmul_avx2 and matmul_avxvnni that is not integer_kernel.h.
void float_matmul_avx2(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                       int64_t row_begin, int64_t row_end);

}  // namespace swiftlet
