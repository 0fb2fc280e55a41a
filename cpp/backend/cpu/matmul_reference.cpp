// The exact reference: plain loops that read like the formula.
#include <vector>

#include "backend/cpu/codec.h"
#include "backend/cpu/matmul.h"

namespace swiftlet {
namespace {

float weight_at(const Matrix& w, int64_t row, int64_t column) {
  const std::byte* codes = w.weight() + uint64_t(row) * w.weight_row_bytes();
  const auto code = [&] { return code_at(codes, w.bits, column); };
  switch (w.codec) {
    case Codec::Affine: {
      const int64_t group = column / w.group_size;
      return scale_at(w, row, group) * float(code()) + float_at(w.biases(), w.dtype, row * w.groups() + group);
    }
    case Codec::MxFp4:
    case Codec::NvFp4:
      return scale_at(w, row, column / w.group_size) * kE2m1[code()];
    case Codec::MxFp8:
      return scale_at(w, row, column / w.group_size) * e4m3_to_float(uint8_t(code()));
    default:
      return float_at(codes, w.dtype, column);
  }
}

}  // namespace

void dequantize_row(const Matrix& w, int64_t row, float* out) {
  for (int64_t c = 0; c < w.cols; ++c) out[c] = weight_at(w, row, c);
}

// The sum runs in double and is rounded once: what differs from the reference is then the other kernel's error alone.
void matmul_reference(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                      int64_t row_begin, int64_t row_end) {
  std::vector<float> weights(size_t(w.cols));
  for (int64_t r = row_begin; r < row_end; ++r) {
    dequantize_row(w, r, weights.data());
    for (int t = 0; t < tokens; ++t) {
      double sum = 0;
      for (int64_t c = 0; c < w.cols; ++c) sum += double(x[t * x_stride + c]) * double(weights[size_t(c)]);
      if (w.bias) sum += double(w.bias[r]);
      y[t * y_stride + r] = float(sum);
    }
  }
}

}  // namespace swiftlet
