// Arithmetic on sizes that come from outside: no sum or product may wrap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace swiftlet {

// Whether [offset, offset + bytes) lies in [0, size).
constexpr bool lies_within(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

// a * b, or nothing where it does not fit.
constexpr std::optional<uint64_t> checked_product(uint64_t a, uint64_t b) {
  if (b != 0 && a > UINT64_MAX / b) return std::nullopt;
  return a * b;
}

// Bytes of a dense tensor, or nothing where a dimension is negative or the product does not fit.
inline std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, DType dtype) {
  std::optional<uint64_t> bytes = size_of(dtype);
  for (int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    bytes = checked_product(*bytes, static_cast<uint64_t>(dim));
    if (!bytes) return std::nullopt;
  }
  return bytes;
}

// Bytes [offset, offset + bytes) of a file or a blob; the sum fits.
struct Extent {
  uint64_t offset;
  uint64_t bytes;
  std::string_view name;
};

// The names of two extents that have a byte in common, if there are such.
inline std::optional<std::pair<std::string_view, std::string_view>> find_overlap(std::vector<Extent> extents) {
  std::erase_if(extents, [](const Extent& extent) { return extent.bytes == 0; });
  std::ranges::sort(extents, {}, &Extent::offset);
  for (size_t i = 1; i < extents.size(); ++i) {
    const Extent& previous = extents[i - 1];
    if (extents[i].offset - previous.offset < previous.bytes) return std::pair(previous.name, extents[i].name);
  }
  return std::nullopt;
}

}  // namespace swiftlet
