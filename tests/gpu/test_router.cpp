#include <algorithm>
#include <cmath>
#include <numeric>

#include "device_under_test.h"
#include "metal/kernel_args.h"

using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

struct Routes {
  std::vector<uint32_t> top_experts, experts;  // [T, k]
  std::vector<float> top_weights, weights;
  std::vector<uint64_t> slots;
};

// The address that the table has for an expert.
uint64_t address_of(uint32_t expert) { return (uint64_t(expert) << 33) + 7; }

// Logits lie `stride` apart, something else after them.
Routes route(Device& device, const std::vector<float>& logits, const RouterArgs& a) {
  const uint32_t tokens = uint32_t(logits.size()) / a.stride, pairs = tokens * a.experts_per_token;
  const auto memory = upload(device, logits), top_experts = upload(device, std::vector<uint32_t>(pairs, 99999)),
             experts = upload(device, std::vector<uint32_t>(pairs, 99999)),
             top_weights = upload(device, std::vector<float>(pairs, -7)),
             weights = upload(device, std::vector<float>(pairs, -7)),
             slots = upload(device, std::vector<uint64_t>(pairs, 1));
  std::vector<uint64_t> table(a.experts);
  for (uint32_t e = 0; e < a.experts; ++e) table[e] = address_of(e);
  const auto table_memory = upload(device, table);
  run(device, {"router", "route"}, {},
      {{memory.get()},
       {top_experts.get(), 0, true},
       {top_weights.get(), 0, true},
       {experts.get(), 0, true},
       {weights.get(), 0, true},
       {table_memory.get()},
       {slots.get(), 0, true}},
      a, {tokens}, 32);
  return {download<uint32_t>(device, *top_experts), download<uint32_t>(device, *experts),
          download<float>(device, *top_weights), download<float>(device, *weights), download<uint64_t>(device, *slots)};
}

// The k experts with the largest logits, ties by id, and their weights.
void check_routes(const Routes& routes, const std::vector<float>& logits, const RouterArgs& a) {
  const uint32_t tokens = uint32_t(logits.size()) / a.stride, k = a.experts_per_token;
  for (uint32_t t = 0; t < tokens; ++t) {
    const float* row = logits.data() + t * a.stride;
    std::vector<uint32_t> order(a.experts);
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return row[x] > row[y]; });
    order.resize(k);
    const double top = row[order[0]];
    double sum = 0, chosen = 0;
    for (uint32_t e = 0; e < a.experts; ++e) sum += std::exp(double(row[e]) - top);
    const auto probability = [&](uint32_t e) { return std::exp(double(row[e]) - top) / sum; };
    for (const uint32_t e : order) chosen += probability(e);
    const auto weight = [&](uint32_t e) { return a.normalise ? probability(e) / chosen : probability(e); };
    const auto near = [&](float got, uint32_t e) {
      return std::abs(double(got) - weight(e)) <= 2e-6 * weight(e) + 1e-37;
    };
    for (uint32_t i = 0; i < k; ++i) {
      CHECK(routes.top_experts[t * k + i] == order[i]);
      CHECK(near(routes.top_weights[t * k + i], order[i]));
    }
    std::sort(order.begin(), order.end());
    for (uint32_t i = 0; i < k; ++i) {
      CHECK(routes.experts[t * k + i] == order[i]);
      CHECK(near(routes.weights[t * k + i], order[i]));
      CHECK(routes.slots[t * k + i] == address_of(order[i]));
    }
  }
}

}  // namespace

TEST_CASE("route: the k most probable experts in both orders, with and without norm_topk_prob") {
  on_devices([](Device& device) {
    struct Case {
      uint32_t experts, k;
    };
    for (const uint32_t normalise : {0, 1})
      for (const auto& [experts, k] : {Case{1, 1}, Case{4, 4}, Case{5, 2}, Case{32, 32}, Case{60, 4}, Case{256, 8},
                                       Case{512, 10}, Case{515, 32}, Case{1000, 16}}) {
        CAPTURE(experts);
        CAPTURE(k);
        const RouterArgs a{experts, k, experts + 1, normalise};
        std::vector<float> logits = random_floats(size_t(3) * a.stride, experts);
        for (float& v : logits) v *= 3;
        check_routes(route(device, logits, a), logits, a);
      }
  });
}

TEST_CASE("route: ties go to the lower id; probabilities of 0 are probabilities") {
  on_devices([](Device& device) {
    const RouterArgs a{70, 6, 71, 1};
    std::vector<float> logits(size_t(4) * a.stride);                               // token 0: all the same
    for (const uint32_t e : {69, 40, 33, 8, 64, 32, 0}) logits[a.stride + e] = 2;  // token 1: 7 of them lead
    for (uint32_t e = 0; e < 70; ++e) logits[2 * a.stride + e] = float(e % 3);
    for (uint32_t e = 0; e < 70; ++e) logits[3 * a.stride + e] = e == 50 ? 1000.0f : 0.0f;  // the others have 0
    check_routes(route(device, logits, a), logits, a);
  });
}

TEST_CASE(
    "route: NaN among the logits gives experts that exist, and weights that say so; other tokens are not touched") {
  on_devices([](Device& device) {
    for (const uint32_t normalise : {0, 1})
      for (const float bad : {NAN, INFINITY, -INFINITY}) {
        CAPTURE(bad);
        const RouterArgs a{40, 5, 41, normalise};
        std::vector<float> logits = random_floats(size_t(3) * a.stride, 4);
        if (bad < 0)
          std::fill_n(logits.begin() + a.stride, 40, bad);  // one of them alone is a probability of 0
        else
          logits[a.stride + 17] = bad;
        const Routes routes = route(device, logits, a);
        for (uint32_t i = 0; i < 15; ++i) {
          CHECK(routes.experts[i] < 40);
          CHECK(routes.top_experts[i] < 40);
          CHECK(std::isnan(routes.weights[i]) == (i / 5 == 1));
          CHECK(std::isnan(routes.top_weights[i]) == (i / 5 == 1));
        }
      }
  });
}

TEST_CASE("route: logits beyond 4 GiB") {
  on_devices([](Device& device) {
    const uint32_t tokens = 5, stride = 1u << 30;  // the last token's begin beyond 2^32 floats
    const auto far = allocate_sparse(device, (uint64_t(tokens - 1) * stride + 20) * sizeof(float));
    if (!far) return;
    const RouterArgs a{20, 3, 20, 1};
    const std::vector<float> logits = random_floats(tokens * 20, 6);
    const Routes expected = route(device, logits, a);
    for (uint64_t t = 0; t < tokens; ++t) device.write(*far, t * stride * sizeof(float), logits.data() + t * 20, 80);
    const auto top_experts = device.allocate(60, Placement::Private), experts = device.allocate(60, Placement::Private),
               top_weights = device.allocate(60, Placement::Private), weights = device.allocate(60, Placement::Private),
               table = device.allocate(20 * 8, Placement::Private), slots = device.allocate(120, Placement::Private);
    run(device, {"router", "route"}, {},
        {{far.get()},
         {top_experts.get(), 0, true},
         {top_weights.get(), 0, true},
         {experts.get(), 0, true},
         {weights.get(), 0, true},
         {table.get()},
         {slots.get(), 0, true}},
        RouterArgs{20, 3, stride, 1}, {tokens}, 32);
    CHECK(download<uint32_t>(device, *top_experts) == expected.top_experts);
    CHECK(download<float>(device, *weights) == expected.weights);
  });
}
