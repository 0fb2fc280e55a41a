// Arithmetic on sizes that come from outside: no sum or product may wrap.
#pragma once

#include <cstdint>
#include <optional>
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

}  // namespace swiftlet
