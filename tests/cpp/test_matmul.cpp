#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/codec.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/thread_pool.h"
#include "base/error.h"
#include "container/safetensors.h"
#include "tests/cpp/emulated_tiles.h"
#include "tests/cpp/emulated_vnni.h"
#include "tests/random_matrix.h"

using namespace swiftlet;
using namespace swiftlet::test;

namespace {

// Largest |y - exact| allowed, relative to the sum of |x| |w|. Two f32 sums in different orders differ by a few 1e-7;
// the rest is that scale * sum(q x) + bias * sum(x) cancels where scale * q + bias is small.
constexpr double kTolerance = 2e-6;
// The same where x counts with 16 bits.
constexpr double kIntegerTolerance = 1.6e-5;

// Whether there is a product in whole numbers. The blocks do not use it for fewer than 16 rows.
bool in_integers(const CpuOps& ops, const Matrix& w) {
  return ops.integers.pack && w.codec == Codec::Affine && (w.bits == 4 || w.bits == 8) && w.group_size % 64 == 0;
}

void multiply(const CpuOps& ops, const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y,
              int64_t y_stride, int64_t begin, int64_t end) {
  if (!in_integers(ops, w)) return ops.matmul(w, x, x_stride, tokens, y, y_stride, begin, end);
  std::vector<std::byte> packed(size_t(tokens * packed_bytes(w.cols)));
  for (int t = 0; t < tokens; ++t)
    ops.integers.pack(x + t * x_stride, w.cols, packed.data() + t * packed_bytes(w.cols));
  ops.integers.matmul(w, packed.data(), tokens, y, y_stride, begin, end);
}

// y [tokens, rows] of all rows
std::vector<float> multiply(const CpuOps& ops, const Matrix& w, const float* x, int tokens) {
  std::vector<float> y(size_t(tokens * w.rows), std::numeric_limits<float>::quiet_NaN());
  multiply(ops, w, x, w.cols, tokens, y.data(), w.rows, 0, w.rows);
  return y;
}

// Widths that end in the middle of every kind of block.
std::vector<int64_t> widths(const Format& f) {
  if (f.codec == Codec::Plain) return {1, 3, 16, 31, 127, 130, 515, 2100};
  const int64_t g = f.group_size;
  return {g, 2 * g, 3 * g, 5 * g, 9 * g, 17 * g, 2048 + g};
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

}  // namespace

TEST_CASE("single codes") {
  // Exponents of 8-bit floats run from 2^-6, with 2^-9 as the smallest subnormal; MLX reads the NaN codes as 480.
  CHECK(e4m3_to_float(0x00) == 0);
  CHECK(e4m3_to_float(0x01) == 0x1p-9f);
  CHECK(e4m3_to_float(0x07) == 7 * 0x1p-9f);
  CHECK(e4m3_to_float(0x08) == 0x1p-6f);
  CHECK(e4m3_to_float(0x38) == 1);
  CHECK(e4m3_to_float(0x7e) == 448);
  CHECK(e4m3_to_float(0x7f) == 480);
  CHECK(e4m3_to_float(0xb9) == -1.125f);
  CHECK(e8m0_to_float(0) == 0x1p-127f);
  CHECK(e8m0_to_float(1) == 0x1p-126f);
  CHECK(e8m0_to_float(127) == 1);
  CHECK(e8m0_to_float(254) == 0x1p127f);
  CHECK(std::isinf(e8m0_to_float(255)));

  const uint8_t stream[] = {0b10'001'000, 0b1'100'011'0, 0b111'110'10, 0xff};  // 3 bits: 0 1 2 3 4 5 6 7
  const auto* bytes = reinterpret_cast<const std::byte*>(stream);
  for (uint32_t i = 0; i < 8; ++i) CHECK(code_at(bytes, 3, i) == i);
}

TEST_CASE("every kernel agrees with the dequantized matrix in double") {
  for (const std::string& isa : cpu_isas()) {
    const CpuOps& ops = ops_for(isa);
    double worst = 0, worst_integer = 0;
    for (const Format& f : all_formats()) {
      CAPTURE(isa);
      CAPTURE(name_of(f));
      for (const int64_t cols : widths(f)) {
        CAPTURE(cols);
        const int64_t rows = 1 + cols % 7;
        const RandomMatrix w(f, rows, cols, cols % 2 == 0);
        for (const int tokens : {1, 4}) {
          const std::vector<float> x = random_floats(size_t(tokens * cols), uint32_t(cols));
          std::vector<float> y(size_t(tokens * rows));
          ops.matmul(w.matrix, x.data(), cols, tokens, y.data(), rows, 0, rows);
          const double error = worst_error(w.matrix, x.data(), cols, tokens, y.data(), rows);
          CHECK(error < kTolerance);
          worst = std::max(worst, error);
          if (!in_integers(ops, w.matrix)) continue;
          y = multiply(ops, w.matrix, x.data(), tokens);
          const double integer_error = worst_error(w.matrix, x.data(), cols, tokens, y.data(), rows);
          CHECK(integer_error < kIntegerTolerance);
          worst_integer = std::max(worst_integer, integer_error);
        }
      }
    }
    MESSAGE(isa << ": largest error " << worst << " of sum |x||w|, with x of 16 bits " << worst_integer);
  }
}

TEST_CASE("every code of every width is decoded exactly") {
  // x picks out one column at a time; powers of two as scales leave no rounding at all.
  for (const std::string& isa : cpu_isas()) {
    for (const Format& f : all_formats()) {
      if (f.codec == Codec::Plain) continue;
      CAPTURE(isa);
      CAPTURE(name_of(f));
      const int64_t cols = f.bits == 8 ? 256 : 128;
      RandomMatrix w(f, 1, cols);
      Matrix& m = w.matrix;
      for (int64_t g = 0; g < m.groups(); ++g) {
        std::byte* scale = w.memory.data() + m.scales_offset + uint64_t(g) * size_of(f.dtype);
        if (f.codec == Codec::Affine) {
          put_float(scale, f.dtype, 0.5f);
          put_float(w.memory.data() + m.biases_offset + uint64_t(g) * size_of(f.dtype), f.dtype, -3);
        } else {
          *scale = std::byte(f.codec == Codec::NvFp4 ? 0x40 : 128);  // 2
        }
      }
      if (f.bits == 8)
        for (int i = 0; i < 256; ++i) w.memory[m.weight_offset + size_t(i)] = std::byte(i);
      std::vector<float> identity(size_t(cols * cols));
      for (int64_t c = 0; c < cols; ++c) identity[size_t(c * cols + c)] = 1;
      CHECK(multiply(ops_for(isa), m, identity.data(), int(cols)) == dequantize(m, 0));
    }
  }
}

TEST_CASE("mlx computes the same") {
  const SafetensorsFile file(std::string(SWIFTLET_TEST_DATA) + "/components/quantized_matmul.safetensors");
  const auto read = [&](const std::string& name) {
    const TensorInfo* info = file.find(name);
    REQUIRE(info);
    std::vector<std::byte> bytes(info->bytes);
    file.read(*info, 0, bytes.data(), bytes.size());
    return bytes;
  };
  const auto read_floats = [&](const std::string& name) {
    const std::vector<std::byte> bytes = read(name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  int cases = 0;
  for (const auto& [weight_name, weight] : file.tensors()) {
    if (!weight_name.ends_with(".weight")) continue;
    const std::string name = weight_name.substr(0, weight_name.size() - 7);
    CAPTURE(name);
    const TensorInfo *x_info = file.find(name + ".x"), *scales = file.find(name + ".scales"),
                     *biases = file.find(name + ".biases");
    const int tokens = int(x_info->shape[0]);
    const int64_t rows = weight.shape[0], cols = x_info->shape[1];
    const StoredTensor stored_scales{scales->dtype, scales->shape};
    const StoredTensor stored_biases = biases ? StoredTensor{biases->dtype, biases->shape} : stored_scales;
    const auto describe = [&] {
      return describe_matrix(name, rows, cols, {weight.dtype, weight.shape}, &stored_scales,
                             biases ? &stored_biases : nullptr);
    };
    if (name.starts_with("affine-1-")) {
      CHECK_THROWS_AS(describe(), Error);
      continue;
    }
    Matrix w = describe();
    std::vector<std::byte> memory;
    const auto append = [&](const std::string& piece) {
      const std::vector<std::byte> bytes = read(name + piece);
      memory.insert(memory.end(), bytes.begin(), bytes.end());
      return memory.size() - bytes.size();
    };
    w.weight_offset = append(".weight");
    w.scales_offset = append(".scales");
    if (biases) w.biases_offset = append(".biases");
    w.base = memory.data();

    const std::vector<float> dequantized = read_floats(name + ".dequantized"), x = read_floats(name + ".x"),
                             y = read_floats(name + ".y");
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<float> row = dequantize(w, r);
      CHECK(std::equal(row.begin(), row.end(), dequantized.begin() + r * cols));
    }
    float largest = 1;
    for (const float v : y) largest = std::max(largest, std::abs(v));
    for (const std::string& isa : cpu_isas()) {
      CAPTURE(isa);
      const std::vector<float> ours = multiply(ops_for(isa), w, x.data(), tokens);
      const float tolerance = in_integers(ops_for(isa), w) ? 4e-5f : 1e-5f;
      for (size_t i = 0; i < y.size(); ++i) CHECK(std::abs(ours[i] - y[i]) <= tolerance * largest);
    }
    ++cases;
  }
  CHECK(cases == 21);
}

TEST_CASE("an element has the same bits in any company") {
  for (const std::string& isa : cpu_isas()) {
    const CpuOps& ops = ops_for(isa);
    for (const Format& f : all_formats()) {
      CAPTURE(isa);
      CAPTURE(name_of(f));
      const int64_t rows = 11, cols = f.codec == Codec::Plain ? 1037 : 2048 + 7 * f.group_size;
      const RandomMatrix w(f, rows, cols, true);
      const int most = 64;
      const std::vector<float> x = random_floats(size_t(most * cols), 1);
      std::vector<float> alone;
      for (int t = 0; t < most; ++t) {
        const std::vector<float> y = multiply(ops, w.matrix, x.data() + t * cols, 1);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (const int tokens : {2, 3, 4, 5, 6, 7, 8, 49, 64}) {
        CAPTURE(tokens);
        const std::vector<float> y = multiply(ops, w.matrix, x.data(), tokens);
        CHECK(std::equal(y.begin(), y.end(), alone.begin(), same_bits));
      }
      // Some rows only, with strides: nothing else is written.
      const int64_t x_stride = cols + 3, y_stride = rows + 2;
      const int tokens = 5;
      std::vector<float> apart(size_t(tokens * x_stride));
      for (int t = 0; t < tokens; ++t) std::copy_n(x.data() + t * cols, cols, apart.data() + t * x_stride);
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 4}, {2, 11}, {10, 11}, {5, 5}}) {
        std::vector<float> y(size_t(tokens * y_stride), -7);
        multiply(ops, w.matrix, apart.data(), x_stride, tokens, y.data(), y_stride, begin, end);
        bool same = true;
        for (int64_t i = 0; i < tokens * y_stride; ++i) {
          const int64_t t = i / y_stride, r = i % y_stride;
          same &= same_bits(y[size_t(i)], r >= begin && r < end ? alone[size_t(t * rows + r)] : -7);
        }
        CHECK(same);
      }
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("VNNI and AMX give the bits of AVX2") {
  const std::vector<std::string> isas = cpu_isas();
  if (std::ranges::find(isas, "avx2") == isas.end()) return;
  for (const Format& f : all_formats())
    if (in_integers(avx2_ops, Matrix{.codec = f.codec, .bits = f.bits, .group_size = f.group_size}))
      for (const int64_t cols : {64, 128, 640, 2048 + 128})
        for (const int64_t rows : {1, 7, 16, 19, 32, 50, 230}) {
          if (rows > 50 && cols != 640) continue;
          if (cols % f.group_size) continue;
          RandomMatrix w(f, rows, cols, true);
          if (rows > 19) w.interleave();
          for (const int tokens : {1, 2, 3, 4, 7, 16, 17, 41, 150}) {
            CAPTURE(name_of(f));
            CAPTURE(cols);
            CAPTURE(rows);
            CAPTURE(tokens);
            const std::vector<float> x = random_floats(size_t(tokens * cols), 1);
            const std::vector<float> expected = multiply(avx2_ops, w.matrix, x.data(), tokens);
            const auto same = [&](IntegerMatmulFn matmul) {
              CpuOps other = avx2_ops;
              other.integers.matmul = matmul;
              const std::vector<float> y = multiply(other, w.matrix, x.data(), tokens);
              return std::equal(y.begin(), y.end(), expected.begin(), same_bits);
            };
            CHECK(same(integer_matmul_emulated_vnni));
            CHECK(same(integer_matmul_emulated_tiles));
            for (const std::string& isa : isas)
              if (isa.ends_with("vnni") || isa == "amx") CHECK(same(ops_for(isa).integers.matmul));
          }
        }
}
#endif

TEST_CASE("rows lie interleaved as interleave.h says") {
  for (const auto& [bits, dtype] : {std::pair{4, DType::BF16}, {4, DType::F32}, {8, DType::F16}}) {
    const int64_t rows = 37, cols = 192;
    const RandomMatrix stored({Codec::Affine, dtype, bits, 64}, rows, cols);
    RandomMatrix w({Codec::Affine, dtype, bits, 64}, rows, cols);
    w.interleave();
    const Matrix& m = w.matrix;
    // Byte i of a row of codes is in this word.
    const auto word_of = [&](int64_t i) { return bits == 8 ? i / 64 * 16 + i % 2 * 8 + i % 64 / 8 : i / 4; };
    const auto byte_of = [&](int64_t i) { return bits == 8 ? i % 8 / 2 : i % 4; };
    const auto check = [&](uint64_t offset, int64_t row_bytes, Element element) {
      std::vector<std::byte> row(size_t(row_bytes), std::byte(0));
      for (int64_t r = 0; r < rows; ++r) {
        const std::byte* expected = stored.memory.data() + offset + r * row_bytes;
        const int64_t set = r / 16 * 16;
        for (int64_t i = 0; i < row_bytes; ++i) {
          int64_t at = r * row_bytes + i;
          if (set + 16 <= rows)
            at = set * row_bytes + (element == Element::Half ? (i / 2 * 16 + r - set) * 2 + i % 2
                                                             : (word_of(i) * 16 + r - set) * 4 + byte_of(i));
          CHECK(w.memory[offset + uint64_t(at)] == expected[i]);
        }
        copy_row(m.base + offset, rows, r, row_bytes, element, row.data());
        CHECK(std::memcmp(row.data(), expected, size_t(row_bytes)) == 0);
      }
    };
    check(m.weight_offset, int64_t(m.weight_row_bytes()), codes_of(m));
    check(m.scales_offset, int64_t(m.scale_row_bytes()), scales_of(m));
    check(m.biases_offset, int64_t(m.scale_row_bytes()), scales_of(m));
  }
}

TEST_CASE("an interleaved matrix gives the same bits") {
  for (const std::string& isa : cpu_isas()) {
    const CpuOps& ops = ops_for(isa);
    for (const Format& f : all_formats()) {
      const int64_t rows = 230, cols = 5 * 128;  // a single token takes four sets at a time, three times, and the rest
      RandomMatrix w(f, rows, cols, true);
      if (!in_integers(ops, w.matrix)) continue;
      CAPTURE(isa);
      CAPTURE(name_of(f));
      const std::vector<float> x = random_floats(size_t(40 * cols), 1);
      std::vector<std::vector<float>> expected;
      for (const int tokens : {1, 3, 40}) expected.push_back(multiply(ops, w.matrix, x.data(), tokens));
      CHECK(worst_error(w.matrix, x.data(), cols, 40, expected[2].data(), rows) < kIntegerTolerance);
      CHECK(std::equal(expected[0].begin(), expected[0].end(), expected[2].begin(), same_bits));
      w.interleave();
      for (size_t i = 0; const int tokens : {1, 3, 40}) {
        const std::vector<float> y = multiply(ops, w.matrix, x.data(), tokens);
        CHECK(std::equal(y.begin(), y.end(), expected[i].begin(), same_bits));
        // Pieces that begin and end inside of sets.
        std::vector<float> pieces(y.size(), -7);
        for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 5}, {5, 16}, {16, 150}, {150, 230}})
          multiply(ops, w.matrix, x.data(), cols, tokens, pieces.data(), rows, begin, end);
        CHECK(std::equal(pieces.begin(), pieces.end(), expected[i++].begin(), same_bits));
      }
    }
  }
}

TEST_CASE("x of any size counts alike") {
  for (const int bits : {4, 8}) {
    const RandomMatrix w({Codec::Affine, DType::BF16, bits, 64}, 3, 128);
    for (const std::string& isa : cpu_isas())
      for (const float size : {1e-20f, 1.f, 1e30f}) {
        CAPTURE(bits);
        CAPTURE(isa);
        CAPTURE(size);
        std::vector<float> x = random_floats(128, 1);
        for (float& value : x) value *= size;
        const std::vector<float> y = multiply(ops_for(isa), w.matrix, x.data(), 1);
        CHECK(worst_error(w.matrix, x.data(), 128, 1, y.data(), 3) < kIntegerTolerance);
      }
  }
}

TEST_CASE("the largest sums of a block are exact") {
  // The largest codes, a scale of 1, and x of whole numbers of 2^-15, which is the step: 127 and -128 in either byte.
  for (const int bits : {4, 8}) {
    RandomMatrix w({Codec::Affine, DType::F32, bits, 64}, 16, 64);
    std::fill(w.memory.begin() + std::ptrdiff_t(w.matrix.weight_offset), w.memory.end(), std::byte(0xff));
    for (size_t r = 0; r < 16; ++r) {
      put_float(w.memory.data() + w.matrix.scales_offset + 4 * r, DType::F32, 1);
      put_float(w.memory.data() + w.matrix.biases_offset + 4 * r, DType::F32, 0);
    }
    for (const int even : {32512, -32512, 32384, -32384, 127, -128})
      for (const int odd : {even, -even}) {
        std::vector<float> x;
        for (int c = 0; c < 64; ++c) x.push_back(std::ldexp(float(c % 2 ? odd : even), -15));
        x[7] = std::ldexp(32512.f, -15);
        double sum = 0;
        for (const float value : x) sum += double(value) * ((1 << bits) - 1);
        CAPTURE(bits);
        CAPTURE(even);
        CAPTURE(odd);
        for (const std::string& isa : cpu_isas()) {
          if (!in_integers(ops_for(isa), w.matrix)) continue;
          for (const float y : multiply(ops_for(isa), w.matrix, x.data(), 1)) CHECK(y == float(sum));
        }
      }
  }
}

TEST_CASE("threads do not change a bit") {
  const Format f{Codec::Affine, DType::BF16, 4, 64};
  const RandomMatrix w(f, 203, 512);
  const int tokens = 7;
  const std::vector<float> x = random_floats(size_t(tokens * 512), 1);
  for (const std::string& isa : cpu_isas()) {
    const CpuOps& ops = ops_for(isa);
    const std::vector<float> expected = multiply(ops, w.matrix, x.data(), tokens);
    for (const int threads : {1, 2, 3, 7}) {
      ThreadPool pool(threads);
      std::vector<float> y(expected.size());
      pool.parallel_for(203, 1, [&](int64_t begin, int64_t end) {
        multiply(ops, w.matrix, x.data(), 512, tokens, y.data(), 203, begin, end);
      });
      CHECK(std::equal(y.begin(), y.end(), expected.begin(), same_bits));
    }
  }
}

TEST_CASE("NaN and infinity come out of their own token and row, and of no other") {
  const float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const std::string& isa : cpu_isas()) {
    const CpuOps& ops = ops_for(isa);
    for (const Format& f : all_formats()) {
      CAPTURE(isa);
      CAPTURE(name_of(f));
      const int64_t rows = 5, cols = f.codec == Codec::Plain ? 131 : 3 * f.group_size;
      RandomMatrix w(f, rows, cols);
      const int tokens = 4;
      for (const float bad : {kNan, kInf, -kInf}) {
        std::vector<float> x = random_floats(size_t(tokens * cols), 1);
        x[size_t(2 * cols + cols - 1)] = bad;
        const std::vector<float> y = multiply(ops, w.matrix, x.data(), tokens);
        for (int64_t i = 0; i < tokens * rows; ++i) CHECK(std::isfinite(y[size_t(i)]) == (i / rows != 2));
      }
      if (f.codec != Codec::Plain && f.codec != Codec::Affine) continue;
      // A damaged weight (plain) or scale.
      const bool plain = f.codec == Codec::Plain;
      const uint64_t row_bytes = plain ? w.matrix.weight_row_bytes() : w.matrix.scale_row_bytes();
      const uint64_t place = (plain ? w.matrix.weight_offset : w.matrix.scales_offset) + 3 * row_bytes;
      put_float(w.memory.data() + place, f.dtype, kNan);
      const std::vector<float> x = random_floats(size_t(tokens * cols), 1);
      const std::vector<float> y = multiply(ops, w.matrix, x.data(), tokens);
      for (int64_t i = 0; i < tokens * rows; ++i) CHECK(std::isfinite(y[size_t(i)]) == (i % rows != 3));
    }
  }
}

TEST_CASE("instruction sets are chosen by name") {
  CHECK(cpu_isas().back() == "reference");
  CHECK(&ops_for("reference") == &reference_ops);
  CHECK(&ops_for("auto") == &ops_for(cpu_isas().front()));
  CHECK_THROWS_WITH_AS(ops_for("mmx"), doctest::Contains("choose one of: auto, "), Error);
}
