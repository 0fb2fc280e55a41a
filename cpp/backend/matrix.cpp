#include "backend/matrix.h"

#include "base/error.h"

namespace swiftlet {
namespace {

constexpr int64_t kMaxSide = (int64_t(1) << 31) - 1;  // keeps every product of sides and bits inside 64 bits

bool is_float(DType dtype) { return dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16; }

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Matrix describe_matrix(const std::string& name, int64_t rows, int64_t cols, const StoredTensor& weight,
                       const StoredTensor* scales, const StoredTensor* biases) {
  const auto reject = [&](const auto&... why) {
    fail(ErrorKind::Container, "tensor '", name, "' cannot be a ", rows, " x ", cols, " weight matrix: ", why...);
  };
  if (rows < 1 || cols < 1 || rows > kMaxSide || cols > kMaxSide) reject("both sides must be 1 to ", kMaxSide);
  const auto expect_rows = [&](const char* piece, const StoredTensor& tensor) {
    if (tensor.shape.size() != 2 || tensor.shape[0] != rows || tensor.shape[1] < 1)
      reject(piece, " has shape ", shape_text(tensor.shape), ", expected [", rows, ", n]");
  };

  Matrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  expect_rows("weight", weight);
  if (!scales) {
    if (biases) reject("it has biases but no scales");
    if (!is_float(weight.dtype))
      reject("weight is ", name_of(weight.dtype), " without scales, expected F32, F16 or BF16");
    if (weight.shape[1] != cols) reject("weight has shape ", shape_text(weight.shape));
    matrix.dtype = weight.dtype;
    matrix.bits = int(8 * size_of(weight.dtype));
    return matrix;
  }

  if (weight.dtype != DType::U32) reject("weight with scales is ", name_of(weight.dtype), ", expected U32 codes");
  const int64_t words = weight.shape[1];
  if (words > kMaxSide || words * 32 % cols != 0)
    reject("rows of ", words, " 32-bit words do not hold a whole number of bits for each column");
  const int64_t bits = words * 32 / cols;
  expect_rows("scales", *scales);
  const int64_t groups = scales->shape[1];
  if (cols % groups != 0) reject(groups, " scales a row do not divide its columns into equal groups");
  const int64_t group_size = cols / groups;

  if (scales->dtype == DType::U8) {
    if (biases) reject("scales are U8 (an mx or nv format), which takes no biases");
    if (bits == 4 && group_size == 32)
      matrix.codec = Codec::MxFp4;
    else if (bits == 8 && group_size == 32)
      matrix.codec = Codec::MxFp8;
    else if (bits == 4 && group_size == 16)
      matrix.codec = Codec::NvFp4;
    else
      reject(bits, " bits in groups of ", group_size, " with U8 scales are none of mxfp4, mxfp8 and nvfp4");
  } else {
    if (!is_float(scales->dtype)) reject("scales are ", name_of(scales->dtype), ", expected F32, F16, BF16 or U8");
    if (!biases) reject("it has scales but no biases");
    if (biases->dtype != scales->dtype || biases->shape != scales->shape)
      reject("biases are ", name_of(biases->dtype), " ", shape_text(biases->shape), ", scales are ",
             name_of(scales->dtype), " ", shape_text(scales->shape));
    const bool known_bits = (bits >= 2 && bits <= 6) || bits == 8;
    const bool known_group = group_size == 32 || group_size == 64 || group_size == 128;
    if (!known_bits || !known_group)
      reject(bits, " bits in groups of ", group_size,
             " are not supported: bits 2, 3, 4, 5, 6 or 8, groups 32, 64 or 128");
    matrix.codec = Codec::Affine;
  }
  matrix.dtype = scales->dtype;
  matrix.bits = int(bits);
  matrix.group_size = int(group_size);
  return matrix;
}

}  // namespace swiftlet
