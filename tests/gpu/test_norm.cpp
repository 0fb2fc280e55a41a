#include <algorithm>
#include <cmath>

#include "../../metal/kernel_args.h"
#include "device_under_test.h"

using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

struct Case {
  uint32_t residual, tokens, columns, threads;
};

constexpr uint32_t kExpertsPerToken = 3, kGateStride = 5;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void check_norm(Device& device, const Case& c) {
  CAPTURE(c.residual);
  CAPTURE(c.columns);
  CAPTURE(c.threads);
  const uint32_t k = kExpertsPerToken, elements = c.tokens * c.columns;
  const std::vector<float> x = random_floats(elements, 1), weight = random_floats(c.columns, 2),
                           delta = random_floats(elements * k, 3), shared = random_floats(elements, 4),
                           gate = random_floats(c.tokens * kGateStride, 5), route = random_floats(c.tokens * k, 6);
  const auto x_memory = upload(device, x), weight_memory = upload(device, weight), delta_memory = upload(device, delta),
             shared_memory = upload(device, shared), gate_memory = upload(device, gate),
             route_memory = upload(device, route);
  const auto h_memory = device.allocate(elements * sizeof(float), Placement::Private);
  run(device, {"norm", "norm"}, {{kConstResidual, c.residual}},
      {{x_memory.get(), 0, true},
       {weight_memory.get()},
       {h_memory.get(), 0, true},
       {delta_memory.get()},
       {shared_memory.get()},
       {gate_memory.get()},
       {route_memory.get()}},
      NormArgs{c.columns, k, kGateStride, 1e-6f}, {c.tokens}, c.threads);

  const std::vector<float> new_x = download<float>(device, *x_memory), h = download<float>(device, *h_memory);
  for (uint32_t t = 0; t < c.tokens; ++t) {
    std::vector<double> row(c.columns);
    double squares = 0;
    for (uint32_t i = 0; i < c.columns; ++i) {
      const uint32_t e = t * c.columns + i;
      row[i] = x[e];
      if (c.residual == kAdd) row[i] += delta[e];
      if (c.residual == kExperts) {
        row[i] += sigmoid(gate[t * kGateStride]) * shared[e];
        for (uint32_t r = 0; r < k; ++r) row[i] += double(route[t * k + r]) * delta[(t * k + r) * c.columns + i];
      }
      squares += row[i] * row[i];
    }
    const double scale = 1 / std::sqrt(squares / c.columns + 1e-6);
    for (uint32_t i = 0; i < c.columns; ++i) {
      const uint32_t e = t * c.columns + i;
      REQUIRE(std::abs(new_x[e] - row[i]) <= 1e-5);
      REQUIRE(std::abs(h[e] - row[i] * scale * weight[i]) <= 1e-5);
    }
  }
}

}  // namespace

TEST_CASE("norm: what the block before left, and the norm of it, for any number of columns and threads") {
  on_devices([](Device& device) {
    for (uint32_t residual : {kNone, kAdd, kExperts})
      for (const Case& c : {Case{residual, 1, 1, 32}, Case{residual, 3, 7, 32}, Case{residual, 2, 64, 64},
                            Case{residual, 2, 1000, 256}, Case{residual, 1, 2049, 1024}})
        check_norm(device, c);
  });
}
