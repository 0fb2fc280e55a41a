#include "base/dtype.h"

#include <array>
#include <cmath>
#include <utility>

namespace swiftlet {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array kEntries = {
    Entry{DType::F32, "F32", 4},   Entry{DType::F16, "F16", 2}, Entry{DType::BF16, "BF16", 2},
    Entry{DType::U32, "U32", 4},   Entry{DType::U8, "U8", 1},   Entry{DType::I8, "I8", 1},
    Entry{DType::I32, "I32", 4},   Entry{DType::I64, "I64", 8}, Entry{DType::F64, "F64", 8},
    Entry{DType::U16, "U16", 2},   Entry{DType::I16, "I16", 2}, Entry{DType::U64, "U64", 8},
    Entry{DType::Bool, "BOOL", 1},
};

const Entry& entry(DType dtype) { return kEntries[static_cast<size_t>(dtype)]; }

}  // namespace

size_t size_of(DType dtype) { return entry(dtype).size; }

std::string_view name_of(DType dtype) { return entry(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Entry& e : kEntries)
    if (e.name == name) return e.dtype;
  return std::nullopt;
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = float(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds beyond 65504, or is infinite
  if (magnitude < 0x38800000)                         // subnormal: round to a multiple of 2^-24
    return sign | uint16_t(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f));
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | uint16_t((rounded >> 13) - (112 << 10));
}

uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);  // a NaN stays one
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace swiftlet
