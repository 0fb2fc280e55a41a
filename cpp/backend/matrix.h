// A weight matrix as the checkpoint stores it: y = x W^T with W [rows, cols].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace swiftlet {

// How weights are encoded. A row of codes is one little-endian bit stream, groups of `group_size` columns share a
// scale.
//   Plain   f32, f16 or bf16 values
//   Affine  w = scale * code + bias; 2, 3, 4, 5, 6 or 8 bits, groups of 32, 64 or 128; scale and bias bf16, f16 or f32
//   MxFp4   w = 2^(scale - 127) * e2m1(code), groups of 32, scale u8
//   MxFp8   w = 2^(scale - 127) * e4m3(code), groups of 32, scale u8
//   NvFp4   w = e4m3(scale) * e2m1(code), groups of 16, scale u8
enum class Codec : uint8_t { Plain, Affine, MxFp4, MxFp8, NvFp4 };

struct Matrix {
  Codec codec = Codec::Plain;
  DType dtype = DType::F32;  // Plain: of the values; Affine: of scales and biases; others: U8
  int bits = 32;             // of one code (Plain: of one value)
  int group_size = 0;        // 0 for Plain
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* base = nullptr;  // start of the memory (arena or slot) the offsets count from
  uint64_t weight_offset = 0;       // [rows, cols * bits / 8] bytes
  uint64_t scales_offset = 0;       // [rows, cols / group_size]
  uint64_t biases_offset = 0;       // Affine: the same shape as the scales
  const float* bias = nullptr;      // a linear layer's bias [rows], or none
  bool interleaved = false;         // the bytes lie as interleave.h says

  const std::byte* weight() const { return base + weight_offset; }
  const std::byte* scales() const { return base + scales_offset; }
  const std::byte* biases() const { return base + biases_offset; }
  int64_t groups() const { return group_size ? cols / group_size : 0; }  // of a row
  uint64_t weight_row_bytes() const { return uint64_t(cols) * bits / 8; }
  uint64_t scale_row_bytes() const { return uint64_t(groups()) * size_of(dtype); }
  Matrix at(const std::byte* memory) const {
    Matrix moved = *this;
    moved.base = memory;
    return moved;
  }
};

// The stored pieces of a matrix: what a safetensors header or a blob's section says of them.
struct StoredTensor {
  DType dtype;
  std::vector<int64_t> shape;
};

// "[2, 3]", for messages.
std::string shape_text(const std::vector<int64_t>& shape);

// Finds codec, bits and group size of a [rows, cols] matrix from the shapes and dtypes of its pieces
// (bits = 32 * words / cols, group = cols / scales; u8 scales mean an mx or nv format). `scales` and `biases` may be
// null. Offsets and base stay 0. Throws ErrorKind::Container with `name` if the pieces do not fit.
Matrix describe_matrix(const std::string& name, int64_t rows, int64_t cols, const StoredTensor& weight,
                       const StoredTensor* scales, const StoredTensor* biases);

}  // namespace swiftlet
