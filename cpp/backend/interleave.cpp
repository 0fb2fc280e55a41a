#include "backend/interleave.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace swiftlet {
namespace {

constexpr size_t kWord = 4;

template <size_t kElement>
void interleave_elements(const std::byte* rows, int64_t row_bytes, int count, std::byte* out) {
  const int64_t elements = row_bytes / int64_t(kElement);
  const std::byte* from[kSetRows];
  for (int r = 0; r < kSetRows; ++r) from[r] = rows + std::min(r, count - 1) * row_bytes;
  for (int64_t k = 0; k < elements; ++k)
    for (int r = 0; r < kSetRows; ++r, out += kElement) std::memcpy(out, from[r] + k * int64_t(kElement), kElement);
}

}  // namespace

void interleave_rows(const std::byte* rows, int64_t row_bytes, int count, size_t element, std::byte* out) {
  element == kWord ? interleave_elements<kWord>(rows, row_bytes, count, out)
                   : interleave_elements<2>(rows, row_bytes, count, out);
}

void interleave(const Matrix& w, std::byte* memory) {
  const auto piece = [&](uint64_t offset, uint64_t row_bytes, size_t element) {
    const size_t set_bytes = kSetRows * row_bytes;
    const auto copy = std::make_unique_for_overwrite<std::byte[]>(set_bytes);
    for (int64_t set = 0; set < w.rows / kSetRows; ++set) {
      std::byte* at = memory + offset + uint64_t(set) * set_bytes;
      std::memcpy(copy.get(), at, set_bytes);
      interleave_rows(copy.get(), int64_t(row_bytes), kSetRows, element, at);
    }
  };
  piece(w.weight_offset, w.weight_row_bytes(), kWord);
  piece(w.scales_offset, w.scale_row_bytes(), size_of(w.dtype));
  piece(w.biases_offset, w.scale_row_bytes(), size_of(w.dtype));
}

void copy_row(const std::byte* piece, int64_t rows, int64_t row, int64_t row_bytes, size_t element, std::byte* out) {
  const int64_t set = row / kSetRows * kSetRows;
  if (set + kSetRows > rows) {
    std::memcpy(out, piece + row * row_bytes, size_t(row_bytes));
    return;
  }
  const std::byte* from = piece + set * row_bytes + (row - set) * int64_t(element);
  for (int64_t at = 0; at < row_bytes; at += int64_t(element)) std::memcpy(out + at, from + at * kSetRows, element);
}

}  // namespace swiftlet
