// Rows of a 4-bit or 8-bit affine matrix side by side, which is how vector instructions take them.
//
// Rows go in sets of 16. The bytes of a set are the same, and stay in its place, in another order: words of codes by
// column and then by row, and so the scales and the biases.
//     word k of row r at k * 16 + r, scale of group g of row r at g * 16 + r
// A word of a row are 8 codes of 4 bits as stored, which vector instructions part into even and odd columns, or 4 codes
// of 8 bits, which are parted here: a block of 64 columns is 8 words of its even ones, then 8 of its odd ones.
// So a register holds the same columns of neighbouring rows, no sum runs across its lanes, and yet the matrix is read
// from memory byte after byte. The rows behind the last whole set lie as stored.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/matrix.h"

namespace swiftlet {

constexpr int kSetRows = 16;
constexpr int kBlockColumns = 64;  // of which even columns come first

// What changes its place as a whole.
enum class Element : uint8_t {
  Half,   // 2 bytes: a scale
  Word,   // 4 bytes: a scale, or 8 codes of 4 bits
  Bytes,  // 4 codes of 8 bits
};
inline Element codes_of(const Matrix& w) { return w.bits == 8 ? Element::Bytes : Element::Word; }
inline Element scales_of(const Matrix& w) { return size_of(w.dtype) == 2 ? Element::Half : Element::Word; }

// Puts the bytes of w, which lie at `memory` as stored, into the order above.
void interleave(const Matrix& w, std::byte* memory);
// The same of one of its w.rows / kSetRows sets. `scratch` has room for the codes of a set.
void interleave_set(const Matrix& w, std::byte* memory, int64_t set, std::byte* scratch);

// Rows of `row_bytes` each as a set at `out`. With `count` < 16 rows the last one takes the place of those that are
// missing.
void interleave_rows(const std::byte* rows, int64_t row_bytes, int count, Element element, std::byte* out);

// Row `row` of a piece of an interleaved matrix of `rows` rows, as it was stored.
void copy_row(const std::byte* piece, int64_t rows, int64_t row, int64_t row_bytes, Element element, std::byte* out);

}  // namespace swiftlet
