// Products with 4-bit and 8-bit matrices in whole numbers: what x becomes for them.
//
// Multiplying floats costs a conversion for every weight. Here a block of 64 columns of x (kBlockColumns) becomes whole
// numbers with one step, x = step * q with |q| <= 32,512, so that an element is off by at most 1/65,024 of the largest
// of its block. q has 16 bits, and is split into two bytes, q = 256 * high + low, as instructions multiply bytes.
#pragma once

#include <cstdint>

#include "backend/interleave.h"
#include "backend/matrix.h"

namespace swiftlet {

// As the low nibbles of a word of 4-bit codes are its even columns, these come first.
struct PackedBlock {
  int8_t low[kBlockColumns], high[kBlockColumns];
};

// What a block's exact sums are multiplied by; NaN if x holds NaN or infinity.
struct PackedSteps {
  float step;
  float sum;  // step * sum of q
};

// A packed token: all its blocks, then all their steps. Tokens begin at a line of the cache.
inline int64_t packed_bytes(int64_t cols) {
  return (cols / kBlockColumns * int64_t(sizeof(PackedBlock) + sizeof(PackedSteps)) + 63) / 64 * 64;
}

// Packs a token of `cols` columns, a multiple of 64, to out, which is aligned to 4 bytes.
using PackFn = void (*)(const float* x, int64_t cols, std::byte* out);

// Rows row_begin .. row_end - 1 of W applied to `tokens` packed tokens, packed_bytes(w.cols) apart:
//   y[t * y_stride + r] = sum over blocks (scale * (step * sum of code q) + offset * (step * sum of q))  (+ bias[r])
// where offset is the matrix's bias of the group. For matrices of which takes_integers() holds. The sums of a block
// are exact, and blocks follow each other in their order, so that the bits of an element depend on its token and its
// row alone, and not on the instruction set.
using IntegerMatmulFn = void (*)(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                                 int64_t row_begin, int64_t row_end);

// Not of a matrix without a whole set of rows, which would have to be brought into their order for each product.
inline bool takes_integers(const Matrix& w) {
  return w.codec == Codec::Affine && (w.bits == 4 || w.bits == 8) && w.group_size % kBlockColumns == 0 &&
         w.rows >= kSetRows;
}

// One of the two for each instruction set: x packed by the first goes to the second.
void pack_avx2(const float* x, int64_t cols, std::byte* out);
void pack_dotprod(const float* x, int64_t cols, std::byte* out);

void integer_matmul_avx2(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride, int64_t row_begin,
                         int64_t row_end);
void integer_matmul_avxvnni(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                            int64_t row_begin, int64_t row_end);
void integer_matmul_avx512vnni(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                               int64_t row_begin, int64_t row_end);
void integer_matmul_amx(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride, int64_t row_begin,
                        int64_t row_end);
void integer_matmul_dotprod(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                            int64_t row_begin, int64_t row_end);

}  // namespace swiftlet
