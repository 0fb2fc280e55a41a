// Rows of a 4-bit affine matrix side by side, which is how vector instructions take them.
//
// Rows go in sets of 16. The bytes of a set are the same, and stay in its place, in another order: words of 8 codes by
// column and then by row, and so the scales and the biases.
//     word k of row r at k * 16 + r, scale of group g of row r at g * 16 + r
// So a register holds the same columns of neighbouring rows, no sum runs across its lanes, and yet the matrix is read
// from memory byte after byte. The rows behind the last whole set lie as stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/matrix.h"

namespace swiftlet {

constexpr int kSetRows = 16;

// Puts the bytes of w, which lie at `memory` as stored, into the order above. Any thread.
void interleave(const Matrix& w, std::byte* memory);

// Rows of `row_bytes` each, of elements of `element` bytes (4 for codes, else the size of a scale), as a set at `out`.
// With `count` < 16 rows the last one takes the place of those that are missing.
void interleave_rows(const std::byte* rows, int64_t row_bytes, int count, size_t element, std::byte* out);

// Row `row` of a piece of an interleaved matrix of `rows` rows, as it was stored.
void copy_row(const std::byte* piece, int64_t rows, int64_t row, int64_t row_bytes, size_t element, std::byte* out);

}  // namespace swiftlet
