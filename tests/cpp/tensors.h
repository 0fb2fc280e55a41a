// Tensors of a fixture, and matrices made of floats, for tests of the blocks.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backend/matrix.h"
#include "container/safetensors.h"

namespace swiftlet::test {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
  int64_t dim(size_t i) const { return shape.at(i); }
  const float* data() const { return values.data(); }
  const float* row(int64_t i) const { return values.data() + i * (int64_t(values.size()) / shape.at(0)); }
};

// All f32 and i32 tensors of tests/data/reference/NAME.safetensors.
inline std::map<std::string, Tensor> load_fixture(const std::string& name) {
  const SafetensorsFile file(std::string(SWIFTLET_TEST_DATA) + "/" + name + ".safetensors");
  std::map<std::string, Tensor> result;
  for (const auto& [key, info] : file.tensors()) {
    if (info.dtype != DType::F32 && info.dtype != DType::I32) continue;
    Tensor& tensor = result[key];
    tensor.shape = info.shape;
    tensor.values.resize(info.bytes / 4);
    file.read(info, 0, tensor.values.data(), info.bytes);
    if (info.dtype == DType::I32)
      for (float& value : tensor.values) value = float(std::bit_cast<int32_t>(value));
  }
  return result;
}

// The largest |a - b|, relative to max(1, max |b|). Infinite if a NaN is on one side only.
inline double relative_error(const float* a, const float* b, size_t n) {
  double largest = 1, difference = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    largest = std::max(largest, double(std::abs(b[i])));
    difference = std::max(difference, double(std::abs(a[i] - b[i])));
  }
  return difference / largest;
}

inline double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() ? relative_error(a.data(), b.data(), a.size()) : INFINITY;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline Matrix plain_matrix(const float* values, int64_t rows, int64_t cols) {
  Matrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.base = reinterpret_cast<const std::byte*>(values);
  return matrix;
}

}  // namespace swiftlet::test
