// Matrices of random bytes in every encoding, and what a product with one must be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/codec.h"
#include "backend/cpu/matmul.h"
#include "backend/interleave.h"

namespace swiftlet::test {

struct Format {
  Codec codec;
  DType dtype;
  int bits;
  int group_size;
};

inline std::string name_of(const Format& f) {
  static const char* const kNames[] = {"plain", "affine", "mxfp4", "mxfp8", "nvfp4"};
  return std::string(kNames[int(f.codec)]) + " " + std::string(swiftlet::name_of(f.dtype)) + " " +
         std::to_string(f.bits) + " bits g" + std::to_string(f.group_size);
}

inline std::vector<Format> all_formats() {
  std::vector<Format> formats = {
      {Codec::Plain, DType::F32, 32, 0}, {Codec::Plain, DType::F16, 16, 0}, {Codec::Plain, DType::BF16, 16, 0},
      {Codec::MxFp4, DType::U8, 4, 32},  {Codec::MxFp8, DType::U8, 8, 32},  {Codec::NvFp4, DType::U8, 4, 16},
  };
  for (const int bits : {2, 3, 4, 5, 6, 8})
    for (const int group : {32, 64, 128})
      for (const DType dtype : {DType::BF16, DType::F16, DType::F32})
        formats.push_back({Codec::Affine, dtype, bits, group});
  return formats;
}

inline void put_float(std::byte* at, DType dtype, float value) {
  const uint16_t half = dtype == DType::F16 ? float_to_f16(value) : float_to_bf16(value);
  if (dtype == DType::F32)
    std::memcpy(at, &value, 4);
  else
    std::memcpy(at, &half, 2);
}

// A matrix of random weights of about 1. The memory ends with its last code. Every piece begins at an odd multiple of
// `alignment`, 0: of the size of its elements.
struct RandomMatrix {
  std::vector<std::byte> memory;
  std::vector<float> bias;
  Matrix matrix;

  RandomMatrix(const Format& f, int64_t rows, int64_t cols, bool with_bias = false, uint64_t alignment = 0,
               uint32_t seed = 0) {
    std::mt19937 random(uint32_t(rows * 1000 + cols) + seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    Matrix& m = matrix;
    m.codec = f.codec;
    m.dtype = f.dtype;
    m.bits = f.bits;
    m.group_size = f.group_size;
    m.rows = rows;
    m.cols = cols;
    const size_t element = f.codec == Codec::Plain ? size_of(f.dtype) : 4;
    const uint64_t scale_bytes = uint64_t(rows) * m.scale_row_bytes();
    const auto place = [&](uint64_t offset, uint64_t element_bytes) {
      const uint64_t to = alignment ? alignment : element_bytes;
      return (offset + to - 1) / (2 * to) * (2 * to) + to;
    };
    m.scales_offset = place(0, size_of(f.dtype));
    m.biases_offset = place(m.scales_offset + scale_bytes, size_of(f.dtype));
    m.weight_offset = place(f.codec == Codec::Affine ? m.biases_offset + scale_bytes : m.biases_offset, element);
    memory.resize(m.weight_offset + uint64_t(rows) * m.weight_row_bytes());
    m.base = memory.data();

    for (size_t i = m.weight_offset; i < memory.size(); ++i) memory[i] = std::byte(random() & 255);
    if (f.codec == Codec::Plain)
      for (int64_t i = 0; i < rows * cols; ++i)
        put_float(memory.data() + m.weight_offset + uint64_t(i) * element, f.dtype, uniform(random));
    for (int64_t i = 0; i < rows * m.groups(); ++i) {
      std::byte* scale = memory.data() + m.scales_offset + uint64_t(i) * size_of(f.dtype);
      const float size = uniform(random) / float(1 << f.bits) * 2;
      if (f.codec == Codec::Affine) {
        put_float(scale, f.dtype, size);
        put_float(memory.data() + m.biases_offset + uint64_t(i) * size_of(f.dtype), f.dtype,
                  -size * float(1 << f.bits) / 2 + uniform(random) / 8);
      } else {
        *scale = std::byte(f.codec == Codec::NvFp4 ? random() & 255 : 120 + random() % 12);
      }
    }
    if (with_bias) {
      for (int64_t r = 0; r < rows; ++r) bias.push_back(uniform(random));
      m.bias = bias.data();
    }
  }
  void interleave() {
    swiftlet::interleave(matrix, memory.data());
    matrix.interleaved = true;
  }
  RandomMatrix(RandomMatrix&&) = default;  // vectors keep their data where it is
  RandomMatrix& operator=(RandomMatrix&&) = default;
};

inline std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline std::vector<float> dequantize(const Matrix& w, int64_t row) {
  std::vector<float> values(size_t(w.cols));
  dequantize_row(w, row, values.data());
  return values;
}

// Largest |y - exact| / sum |x| |w| over all elements; NaN counts as infinite. Rows of x and y lie x_stride and
// y_stride floats apart.
inline double worst_error(const Matrix& w, const float* x, int64_t x_stride, int tokens, const float* y,
                          int64_t y_stride) {
  double worst = 0;
  for (int64_t r = 0; r < w.rows; ++r) {
    const std::vector<float> row = dequantize(w, r);
    for (int t = 0; t < tokens; ++t) {
      double exact = w.bias ? double(w.bias[r]) : 0, size = std::abs(exact);
      for (int64_t c = 0; c < w.cols; ++c) {
        const double product = double(row[size_t(c)]) * double(x[t * x_stride + c]);
        exact += product;
        size += std::abs(product);
      }
      const double error = std::abs(double(y[t * y_stride + r]) - exact) / std::max(size, 1e-30);
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
  }
  return worst;
}

}  // namespace swiftlet::test
