// Element types as safetensors names them, and the conversions a CPU needs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace swiftlet {

enum class DType : uint8_t { F32, F16, BF16, U32, U8, I8, I32, I64, F64, U16, I16, U64, Bool };

// Bytes of one element.
size_t size_of(DType dtype);
std::string_view name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);   // round to nearest even
uint16_t float_to_bf16(float value);  // round to nearest even, NaN kept

}  // namespace swiftlet
