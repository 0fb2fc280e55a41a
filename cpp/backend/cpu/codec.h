// What the bytes of a weight matrix mean, one value at a time. Kernels that decode many at once must agree with this.
//
// Everything here is static: files compiled for different instruction sets include it, and the linker must not
// replace the copy of one by that of another.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/matrix.h"

namespace swiftlet {

// The index-th T of an array that may be aligned to less than T.
template <class T>
static inline T load(const std::byte* array, int64_t index = 0) {
  T value;
  std::memcpy(&value, array + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}

// 4-bit floats: sign, 2 bits of exponent, 1 of mantissa (OCP Microscaling Formats v1.0, table 5).
static constexpr std::array<float, 16> kE2m1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// 8-bit floats: sign, 4 bits of exponent, 3 of mantissa, no infinity (the same, table 1). The two codes that OCP calls
// NaN are +-480 to MLX, which made the weights, so here too.
static inline float e4m3_to_float(uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  const float magnitude =
      exponent == 0 ? std::ldexp(float(mantissa), -9) : std::ldexp(float(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

// 8-bit power of two, 2^(bits - 127); 255 is past the range of f32 and gives infinity.
static inline float e8m0_to_float(uint8_t bits) {
  return std::bit_cast<float>(bits == 0 ? 0x00400000u : uint32_t(bits) << 23);
}

// Element `index` of an array of f32, f16 or bf16.
static inline float float_at(const std::byte* array, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::F16:
      return f16_to_float(load<uint16_t>(array, index));
    case DType::BF16:
      return bf16_to_float(load<uint16_t>(array, index));
    default:
      return load<float>(array, index);
  }
}

// Code `index` of a little-endian stream of codes of at most 8 bits. Reads no byte beyond those the code lies in.
static inline uint32_t code_at(const std::byte* stream, int bits, int64_t index) {
  const int64_t first_bit = index * bits;
  const std::byte* bytes = stream + first_bit / 8;
  const int shift = int(first_bit % 8);
  uint32_t word = uint32_t(bytes[0]);
  if (shift + bits > 8) word |= uint32_t(bytes[1]) << 8;
  return word >> shift & ((1u << bits) - 1);
}

// Scale of group `group` of row `row`.
static inline float scale_at(const Matrix& w, int64_t row, int64_t group) {
  const int64_t index = row * w.groups() + group;
  switch (w.codec) {
    case Codec::NvFp4:
      return e4m3_to_float(load<uint8_t>(w.scales(), index));
    case Codec::MxFp4:
    case Codec::MxFp8:
      return e8m0_to_float(load<uint8_t>(w.scales(), index));
    default:
      return float_at(w.scales(), w.dtype, index);
  }
}

}  // namespace swiftlet
