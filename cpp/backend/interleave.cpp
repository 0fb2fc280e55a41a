#include "backend/interleave.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace swiftlet {
namespace {

constexpr int kHalfBlock = kBlockColumns / 2;

template <size_t kElement>
void interleave_elements(const std::byte* rows, int64_t row_bytes, int count, std::byte* out) {
  const int64_t elements = row_bytes / int64_t(kElement);
  const std::byte* from[kSetRows];
  for (int r = 0; r < kSetRows; ++r) from[r] = rows + std::min(r, count - 1) * row_bytes;
  for (int64_t k = 0; k < elements; ++k)
    for (int r = 0; r < kSetRows; ++r, out += kElement) std::memcpy(out, from[r] + k * int64_t(kElement), kElement);
}

void interleave_bytes(const std::byte* rows, int64_t row_bytes, int count, std::byte* out) {
  std::byte parted[kSetRows][kBlockColumns];
  for (int64_t begin = 0; begin < row_bytes; begin += kBlockColumns, out += sizeof(parted)) {
    for (int r = 0; r < count; ++r) {
      const std::byte* codes = rows + r * row_bytes + begin;
      for (int i = 0; i < kHalfBlock; ++i) {
        parted[r][i] = codes[2 * i];
        parted[r][kHalfBlock + i] = codes[2 * i + 1];
      }
    }
    interleave_elements<4>(parted[0], kBlockColumns, count, out);
  }
}

}  // namespace

void interleave_rows(const std::byte* rows, int64_t row_bytes, int count, Element element, std::byte* out) {
  switch (element) {
    case Element::Half:
      return interleave_elements<2>(rows, row_bytes, count, out);
    case Element::Word:
      return interleave_elements<4>(rows, row_bytes, count, out);
    case Element::Bytes:
      return interleave_bytes(rows, row_bytes, count, out);
  }
}

void interleave_set(const Matrix& w, std::byte* memory, int64_t set, std::byte* scratch) {
  const auto piece = [&](uint64_t offset, uint64_t row_bytes, Element element) {
    const size_t set_bytes = kSetRows * row_bytes;
    std::byte* at = memory + offset + uint64_t(set) * set_bytes;
    std::memcpy(scratch, at, set_bytes);
    interleave_rows(scratch, int64_t(row_bytes), kSetRows, element, at);
  };
  piece(w.weight_offset, w.weight_row_bytes(), codes_of(w));
  piece(w.scales_offset, w.scale_row_bytes(), scales_of(w));
  piece(w.biases_offset, w.scale_row_bytes(), scales_of(w));
}

void interleave(const Matrix& w, std::byte* memory) {
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(kSetRows * w.weight_row_bytes());
  for (int64_t set = 0; set < w.rows / kSetRows; ++set) interleave_set(w, memory, set, scratch.get());
}

void copy_row(const std::byte* piece, int64_t rows, int64_t row, int64_t row_bytes, Element element, std::byte* out) {
  const int64_t set = row / kSetRows * kSetRows;
  if (set + kSetRows > rows) {
    std::memcpy(out, piece + row * row_bytes, size_t(row_bytes));
    return;
  }
  const int64_t size = element == Element::Half ? 2 : 4;
  const std::byte* from = piece + set * row_bytes + (row - set) * size;
  for (int64_t at = 0; at < row_bytes; at += size) std::memcpy(out + at, from + at * kSetRows, size_t(size));
  if (element != Element::Bytes) return;
  for (std::byte* block = out; block < out + row_bytes; block += kBlockColumns) {
    std::byte parted[kBlockColumns];
    std::memcpy(parted, block, kBlockColumns);
    for (int i = 0; i < kHalfBlock; ++i) {
      block[2 * i] = parted[i];
      block[2 * i + 1] = parted[kHalfBlock + i];
    }
  }
}

}  // namespace swiftlet
