#include <algorithm>
#include <cmath>

#include "device_under_test.h"
#include "metal/kernel_args.h"

using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

constexpr uint32_t kThreads = 64;

uint32_t groups(uint32_t columns) { return (columns + kThreads - 1) / kThreads; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("silu_mul: gate and up lie side by side") {
  on_devices([](Device& device) {
    for (const uint32_t columns : {1, 63, 64, 130}) {
      const uint32_t rows = 3;
      std::vector<float> x = random_floats(size_t(rows) * 2 * columns, 1);
      x[0] = 100;  // silu(x) = x
      if (columns > 2) x[1] = -100;
      const auto x_memory = upload(device, x),
                 out = device.allocate(rows * columns * sizeof(float), Placement::Private);
      run(device, {"experts", "silu_mul"}, {}, {{x_memory.get()}, {out.get(), 0, true}}, SiluMulArgs{columns},
          {groups(columns), rows}, kThreads);
      const std::vector<float> y = download<float>(device, *out);
      for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t i = 0; i < columns; ++i) {
          const double gate = x[r * 2 * columns + i], up = x[r * 2 * columns + columns + i];
          const double exact = gate * sigmoid(gate) * up;
          CHECK(std::abs(y[r * columns + i] - exact) <= 1e-6 * std::abs(exact) + 1e-30);
        }
    }
  });
}

TEST_CASE("scale_shared: by the gate of each token") {
  on_devices([](Device& device) {
    for (const uint32_t columns : {1, 64, 97}) {
      const uint32_t tokens = 4, stride = 9;
      const std::vector<float> y = random_floats(size_t(tokens) * columns, 2), gate = random_floats(tokens * stride, 3);
      const auto y_memory = upload(device, y), gate_memory = upload(device, gate);
      // As the router's logits: the gate comes after them.
      run(device, {"experts", "scale_shared"}, {},
          {{y_memory.get(), 0, true}, {gate_memory.get(), (stride - 1) * sizeof(float)}}, SharedArgs{columns, stride},
          {groups(columns), tokens}, kThreads);
      const std::vector<float> scaled = download<float>(device, *y_memory);
      for (uint32_t t = 0; t < tokens; ++t)
        for (uint32_t i = 0; i < columns; ++i) {
          const double exact = double(y[t * columns + i]) * sigmoid(gate[t * stride + stride - 1]);
          CHECK(std::abs(scaled[t * columns + i] - exact) <= 1e-6 * std::abs(exact));
        }
    }
  });
}

TEST_CASE("add_experts: those that are there, of each token; batches one after another give the same bits") {
  on_devices([](Device& device) {
    const uint32_t tokens = 3, k = 4, columns = 70, pairs = tokens * k;
    const std::vector<float> y = random_floats(tokens * columns, 4), weights = random_floats(pairs, 5),
                             out = random_floats(pairs * columns, 6);
    std::vector<int32_t> row_of = {3, -1, 0, 7, -1, -1, -1, -1, 11, 2, 5, 9};
    const auto out_memory = upload(device, out), weights_memory = upload(device, weights);
    const auto add = [&](const std::vector<int32_t>& rows, std::vector<float> to) {
      const auto to_memory = upload(device, to), rows_memory = upload(device, rows);
      run(device, {"experts", "add_experts"}, {},
          {{to_memory.get(), 0, true}, {out_memory.get()}, {rows_memory.get()}, {weights_memory.get()}},
          GatherArgs{columns, k}, {groups(columns), tokens}, kThreads);
      return download<float>(device, *to_memory);
    };
    const std::vector<float> sum = add(row_of, y);
    for (uint32_t t = 0; t < tokens; ++t)
      for (uint32_t i = 0; i < columns; ++i) {
        double exact = y[t * columns + i], size = std::abs(exact);
        for (uint32_t r = 0; r < k; ++r) {
          const int32_t row = row_of[t * k + r];
          if (row < 0) continue;
          const double part = double(weights[t * k + r]) * double(out[uint32_t(row) * columns + i]);
          exact += part;
          size += std::abs(part);
        }
        CHECK(std::abs(sum[t * columns + i] - exact) <= 5e-7 * size);
      }
    CHECK(std::equal(sum.begin() + columns, sum.begin() + 2 * columns, y.begin() + columns));  // a token without any

    // Experts by rising id, in two batches.
    std::vector<int32_t> first = row_of, second = row_of;
    for (uint32_t i = 0; i < pairs; ++i) (i % k < 2 ? second : first)[i] = -1;
    CHECK(add(second, add(first, y)) == sum);
  });
}
