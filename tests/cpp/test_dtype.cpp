#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/dtype.h"

using namespace swiftlet;

namespace {

// A binary format of 1 + exponent_bits + mantissa_bits bits, by definition rather than by bit tricks.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  uint16_t infinity() const { return uint16_t(((1 << exponent_bits) - 1) << mantissa_bits); }
  // `code` is a finite, non-negative value; infinity's code gives the value that would follow the largest one.
  double value(uint16_t code) const {
    const int exponent = code >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    return exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                         : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
};

constexpr Format kF16{5, 10};
constexpr Format kBf16{8, 7};

// Counts instead of CHECK in the loops: doctest would take a second for 65,536 assertions.
template <class ToFloat>
int wrong_values(const Format& format, const ToFloat& to_float) {
  int wrong = 0;
  for (uint16_t code = 0; code < format.infinity(); ++code) {
    const float expected = static_cast<float>(format.value(code));
    wrong += std::bit_cast<uint32_t>(to_float(code)) != std::bit_cast<uint32_t>(expected);
    wrong += std::bit_cast<uint32_t>(to_float(code | 0x8000)) != std::bit_cast<uint32_t>(-expected);
  }
  return wrong;
}

// Rounding is a monotonic step function, so its steps decide it: at the middle between two neighbours it takes the even
// one, a float below the lower one, a float above the upper one. The last step is the one to infinity.
template <class FromFloat>
int wrong_steps(const Format& format, const FromFloat& from_float) {
  int wrong = 0;
  for (uint16_t lower = 0; lower < format.infinity(); ++lower) {
    const uint16_t upper = lower + 1;
    const float middle = static_cast<float>((format.value(lower) + format.value(upper)) / 2);
    for (uint16_t sign : {0, 0x8000}) {
      const float s = sign ? -1.0f : 1.0f;
      wrong += from_float(s * static_cast<float>(format.value(lower))) != (sign | lower);
      wrong += from_float(s * std::nextafter(middle, 0.0f)) != (sign | lower);
      wrong += from_float(s * middle) != (sign | (lower % 2 == 0 ? lower : upper));
      wrong += from_float(s * std::nextafter(middle, std::numeric_limits<float>::infinity())) != (sign | upper);
    }
  }
  return wrong;
}

template <class FromFloat>
int wrong_order(const FromFloat& from_float) {
  int wrong = 0;
  uint16_t previous = 0;
  for (uint32_t bits = 0; bits <= 0x7f800000; bits += 1021) {
    const uint16_t code = from_float(std::bit_cast<float>(bits));
    wrong += code < previous;
    previous = code;
  }
  return wrong;
}

// NaN codes must become NaN floats and the other way round, with their sign.
template <class ToFloat, class FromFloat>
int wrong_nans(const Format& format, const ToFloat& to_float, const FromFloat& from_float) {
  int wrong = 0;
  for (uint32_t code = format.infinity() + 1u; code < 0x8000; ++code)
    wrong += !std::isnan(to_float(uint16_t(code))) + !std::isnan(to_float(uint16_t(code | 0x8000)));
  const auto is_nan = [&](uint16_t code) { return (code & 0x7fff) > format.infinity(); };
  for (uint32_t bits : {0x7f800001u, 0x7f801fffu, 0x7f80ffffu, 0x7fbfffffu, 0x7fc00000u, 0x7fffffffu})
    for (uint32_t sign : {0u, 0x80000000u}) {
      const uint16_t code = from_float(std::bit_cast<float>(bits | sign));
      wrong += !is_nan(code) || (code & 0x8000) != sign >> 16;
    }
  return wrong;
}

}  // namespace

TEST_CASE("dtype: every f16 value is exact") { CHECK(wrong_values(kF16, f16_to_float) == 0); }
TEST_CASE("dtype: every bf16 value is exact") { CHECK(wrong_values(kBf16, bf16_to_float) == 0); }

TEST_CASE("dtype: float to f16 rounds to nearest even at every step") {
  CHECK(wrong_steps(kF16, float_to_f16) == 0);
  CHECK(wrong_order(float_to_f16) == 0);
}

TEST_CASE("dtype: float to bf16 rounds to nearest even at every step") {
  CHECK(wrong_steps(kBf16, float_to_bf16) == 0);
  CHECK(wrong_order(float_to_bf16) == 0);
}

TEST_CASE("dtype: infinities and NaN keep their meaning and sign") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(f16_to_float(0x7c00) == infinity);
  CHECK(f16_to_float(0xfc00) == -infinity);
  CHECK(bf16_to_float(0x7f80) == infinity);
  CHECK(float_to_f16(infinity) == 0x7c00);
  CHECK(float_to_f16(-infinity) == 0xfc00);
  CHECK(float_to_f16(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(float_to_bf16(infinity) == 0x7f80);
  CHECK(float_to_bf16(-infinity) == 0xff80);
  CHECK(wrong_nans(kF16, f16_to_float, float_to_f16) == 0);
  CHECK(wrong_nans(kBf16, bf16_to_float, float_to_bf16) == 0);
}

TEST_CASE("dtype: names and sizes are those of safetensors") {
  struct Row {
    DType dtype;
    const char* name;
    size_t size;
  };
  for (const Row& row :
       {Row{DType::F32, "F32", 4}, Row{DType::F16, "F16", 2}, Row{DType::BF16, "BF16", 2}, Row{DType::U32, "U32", 4},
        Row{DType::U8, "U8", 1}, Row{DType::I8, "I8", 1}, Row{DType::I32, "I32", 4}, Row{DType::I64, "I64", 8},
        Row{DType::F64, "F64", 8}, Row{DType::U16, "U16", 2}, Row{DType::I16, "I16", 2}, Row{DType::U64, "U64", 8},
        Row{DType::Bool, "BOOL", 1}}) {
    CHECK(name_of(row.dtype) == row.name);
    CHECK(size_of(row.dtype) == row.size);
    CHECK(parse_dtype(row.name) == row.dtype);
  }
  for (const char* name : {"", "f32", "F8_E4M3", "F32 ", "C64"}) CHECK_FALSE(parse_dtype(name));
}
