#include <doctest/doctest.h>

#include <limits>

#include "backend/matrix.h"
#include "base/error.h"

using namespace swiftlet;

namespace {

Matrix describe(int64_t rows, int64_t cols, StoredTensor weight) {
  return describe_matrix("w", rows, cols, weight, nullptr, nullptr);
}
Matrix describe(int64_t rows, int64_t cols, StoredTensor weight, StoredTensor scales) {
  return describe_matrix("w", rows, cols, weight, &scales, nullptr);
}
Matrix describe(int64_t rows, int64_t cols, StoredTensor weight, StoredTensor scales, StoredTensor biases) {
  return describe_matrix("w", rows, cols, weight, &scales, &biases);
}

void check(const Matrix& m, Codec codec, DType dtype, int bits, int group_size) {
  CHECK(m.codec == codec);
  CHECK(m.dtype == dtype);
  CHECK(m.bits == bits);
  CHECK(m.group_size == group_size);
}

template <class... Pieces>
void check_rejected(const char* part, int64_t rows, int64_t cols, const Pieces&... pieces) {
  try {
    describe(rows, cols, pieces...);
    FAIL_CHECK("accepted, expected an error with: ", part);
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(error.kind() == ErrorKind::Container);
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    CHECK_MESSAGE(message.find("'w'") != std::string::npos, message);
  }
}

}  // namespace

TEST_CASE("plain matrices") {
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
    const Matrix m = describe(3, 7, {dtype, {3, 7}});
    check(m, Codec::Plain, dtype, int(8 * size_of(dtype)), 0);
    CHECK(m.rows == 3);
    CHECK(m.cols == 7);
    CHECK(m.groups() == 0);
    CHECK(m.weight_row_bytes() == 7 * size_of(dtype));
    CHECK(m.scale_row_bytes() == 0);
  }
}

TEST_CASE("affine matrices: bits and group size follow from the shapes") {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
        const StoredTensor scales{dtype, {5, 384 / group}};
        const Matrix m = describe(5, 384, {DType::U32, {5, 384 * bits / 32}}, scales, scales);
        check(m, Codec::Affine, dtype, bits, group);
        CHECK(m.groups() == 384 / group);
        CHECK(m.weight_row_bytes() == uint64_t(384 * bits / 8));
        CHECK(m.scale_row_bytes() == 384 / group * size_of(dtype));
      }
    }
  }
}

TEST_CASE("mx and nv formats") {
  check(describe(2, 64, {DType::U32, {2, 8}}, {DType::U8, {2, 2}}), Codec::MxFp4, DType::U8, 4, 32);
  check(describe(2, 64, {DType::U32, {2, 16}}, {DType::U8, {2, 2}}), Codec::MxFp8, DType::U8, 8, 32);
  check(describe(2, 64, {DType::U32, {2, 8}}, {DType::U8, {2, 4}}), Codec::NvFp4, DType::U8, 4, 16);
}

TEST_CASE("pieces that do not fit are named") {
  const StoredTensor codes{DType::U32, {2, 8}}, scales{DType::BF16, {2, 1}};
  check_rejected("both sides", 0, 64, codes, scales, scales);
  check_rejected("both sides", 2, -64, codes, scales, scales);
  check_rejected("both sides", 2, std::numeric_limits<int64_t>::max(), codes, scales, scales);

  check_rejected("[2, 8]", 2, 64, StoredTensor{DType::F32, {2, 8}});
  check_rejected("[2, 64, 1]", 2, 64, StoredTensor{DType::F32, {2, 64, 1}});
  check_rejected("[64]", 2, 64, StoredTensor{DType::F32, {64}});
  check_rejected("I32 without scales", 2, 64, StoredTensor{DType::I32, {2, 64}});
  check_rejected("without scales", 2, 64, codes);

  check_rejected("expected U32", 2, 64, StoredTensor{DType::BF16, {2, 8}}, scales, scales);
  check_rejected("weight has shape [3, 8]", 2, 64, StoredTensor{DType::U32, {3, 8}}, scales, scales);
  check_rejected("weight has shape [2, 0]", 2, 64, StoredTensor{DType::U32, {2, 0}}, scales, scales);
  check_rejected("7 32-bit words", 2, 64, StoredTensor{DType::U32, {2, 7}}, scales, scales);
  check_rejected("32-bit words", 2, 64, StoredTensor{DType::U32, {2, std::numeric_limits<int64_t>::max()}}, scales,
                 scales);
  check_rejected("scales has shape [1, 1]", 2, 64, codes, StoredTensor{DType::BF16, {1, 1}}, scales);
  check_rejected("3 scales a row", 2, 64, codes, StoredTensor{DType::BF16, {2, 3}}, StoredTensor{DType::BF16, {2, 3}});
  check_rejected("scales are I8", 2, 64, codes, StoredTensor{DType::I8, {2, 1}}, StoredTensor{DType::I8, {2, 1}});
  check_rejected("no biases", 2, 64, codes, scales);
  check_rejected("biases are F16", 2, 64, codes, scales, StoredTensor{DType::F16, {2, 1}});
  check_rejected("biases are BF16 [2, 2]", 2, 64, codes, scales, StoredTensor{DType::BF16, {2, 2}});
  check_rejected("7 bits", 2, 64, StoredTensor{DType::U32, {2, 14}}, scales, scales);
  check_rejected("1 bits", 2, 64, StoredTensor{DType::U32, {2, 2}}, scales, scales);
  check_rejected("groups of 16", 2, 64, codes, StoredTensor{DType::BF16, {2, 4}}, StoredTensor{DType::BF16, {2, 4}});
  check_rejected("none of mxfp4", 2, 64, codes, StoredTensor{DType::U8, {2, 1}});
  check_rejected("takes no biases", 2, 64, codes, StoredTensor{DType::U8, {2, 2}}, StoredTensor{DType::U8, {2, 2}});
  const StoredTensor scale_only{DType::BF16, {2, 1}};
  CHECK_THROWS_AS(describe_matrix("w", 2, 64, {DType::BF16, {2, 64}}, nullptr, &scale_only), Error);
}
