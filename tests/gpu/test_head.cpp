#include <algorithm>
#include <cmath>
#include <numeric>

#include "device_under_test.h"
#include "metal/kernel_args.h"

using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

struct Top {
  std::vector<float> values;  // [count]
  std::vector<uint32_t> ids;
  float log_sum_exp;
};

Top top_logits(Device& device, const std::vector<float>& logits, uint32_t segment, uint32_t count, uint32_t threads) {
  const uint32_t vocab = uint32_t(logits.size()), segments = (vocab + segment - 1) / segment;
  const auto floats = [&](size_t n) { return upload(device, std::vector<float>(n, NAN)); };
  const auto memory = upload(device, logits), values = floats(size_t(segments) * count),
             ids = floats(size_t(segments) * count), sums = floats(segments), best = floats(count + 1),
             best_ids = floats(count);
  const TopLogitsArgs args{vocab, segment, segments, count};
  run(device, {"head", "top_segment"}, {},
      {{memory.get()}, {values.get(), 0, true}, {ids.get(), 0, true}, {sums.get(), 0, true}}, args, {segments},
      threads);
  run(device, {"head", "top_logits"}, {},
      {{values.get()}, {ids.get()}, {sums.get()}, {best.get(), 0, true}, {best_ids.get(), 0, true}}, args, {1}, 32);
  Top top{download<float>(device, *best), download<uint32_t>(device, *best_ids), 0};
  top.log_sum_exp = top.values.back();
  top.values.pop_back();
  return top;
}

void check_top(const Top& top, const std::vector<float>& logits) {
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  double sum = 0;
  for (const float v : logits) sum += std::exp(double(v) - double(logits[order[0]]));
  for (size_t i = 0; i < top.ids.size(); ++i) {
    CHECK(top.ids[i] == order[i]);
    CHECK(top.values[i] == logits[order[i]]);
  }
  const double exact = double(logits[order[0]]) + std::log(sum);
  CHECK(std::abs(double(top.log_sum_exp) - exact) <= 1e-6 + 2e-7 * std::abs(exact));
}

}  // namespace

TEST_CASE("top_segment and top_logits: as a sort of all, for any vocabulary, segment and count") {
  on_devices([](Device& device) {
    struct Case {
      uint32_t vocab, segment, count, threads;
    };
    for (const auto& [vocab, segment, count, threads] :
         {Case{1, 64, 1, 32}, Case{77, 64, 10, 64}, Case{65, 64, 64, 32}, Case{64, 64, 64, 96}, Case{1000, 64, 7, 64},
          Case{4500, 2048, 64, 256}, Case{5000, 4096, 20, 1024}, Case{2300, 32, 33, 32}, Case{3, 64, 3, 256}}) {
      CAPTURE(vocab);
      CAPTURE(segment);
      CAPTURE(count);
      std::vector<float> logits = random_floats(vocab, vocab);
      for (float& v : logits) v = 5 * v - 20;
      check_top(top_logits(device, logits, segment, count, threads), logits);
    }
    // As many segments as top_logits has room for.
    const std::vector<float> many = random_floats(1024 * 3 - 1, 1);
    check_top(top_logits(device, many, 3, 5, 32), many);
  });
}

TEST_CASE("top_segment and top_logits: ties go to the lower id") {
  on_devices([](Device& device) {
    std::vector<float> logits(300);
    check_top(top_logits(device, logits, 64, 64, 64), logits);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = float(i % 7);
    check_top(top_logits(device, logits, 64, 64, 64), logits);
    check_top(top_logits(device, logits, 64, 64, 32), logits);
  });
}

TEST_CASE("top_segment and top_logits: a logit that is not finite is reported, wherever it is") {
  on_devices([](Device& device) {
    for (const float bad : {NAN, INFINITY, -INFINITY})
      for (const size_t at : {0, 63, 64, 299}) {
        CAPTURE(bad);
        CAPTURE(at);
        std::vector<float> logits = random_floats(300, 2);
        logits[at] = bad;
        const Top top = top_logits(device, logits, 64, 5, 64);
        CHECK(std::isnan(top.log_sum_exp));
        for (const uint32_t id : top.ids) CHECK((id < 300 || id == 0xffffffffu));
      }
    const Top nothing = top_logits(device, std::vector<float>(300, NAN), 64, 5, 64);
    CHECK(std::isnan(nothing.log_sum_exp));
  });
}

TEST_CASE("top_logits: the logarithm holds for logits that are far apart or large") {
  on_devices([](Device& device) {
    std::vector<float> logits = random_floats(200, 3);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = logits[i] * 100 + (i < 64 ? 3000.0f : -3000.0f);
    check_top(top_logits(device, logits, 64, 3, 64), logits);
  });
}
