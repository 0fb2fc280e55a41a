#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "base/error.h"
#include "engine/sampler.h"

using namespace swiftlet;

namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

SampledToken once(const SamplingParams& params, std::vector<float> logits = kLogits, std::vector<int32_t> prompt = {}) {
  return Sampler(params, prompt, int64_t(logits.size())).sample(logits);
}

// Shares of 40,000 draws.
std::vector<double> shares(SamplingParams params, const std::vector<float>& logits = kLogits) {
  params.seed = 7;
  constexpr int kDraws = 40000;
  Sampler sampler(params, {}, int64_t(logits.size()));
  std::vector<double> share(logits.size());
  for (int i = 0; i < kDraws; i++) {
    std::vector<float> scratch = logits;
    share[sampler.sample(scratch).id] += 1.0 / kDraws;
  }
  return share;
}

std::vector<double> softmax(const std::vector<double>& logits) {
  double sum = 0;
  std::vector<double> p;
  for (const double l : logits) sum += std::exp(l);
  for (const double l : logits) p.push_back(std::exp(l) / sum);
  return p;
}

void check_near(const std::vector<double>& got, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); i++) CHECK(got[i] == doctest::Approx(want[i]).epsilon(0.01).scale(1));
}

}  // namespace

TEST_CASE("sampler: greedy takes the largest, ties the lower id") {
  SamplingParams p;
  p.temperature = 0;
  CHECK(once(p).id == 1);
}

TEST_CASE("sampler: temperature follows the softmax") {
  SamplingParams p;
  check_near(shares(p), softmax({1, 3, 2, 3, -1}));
  p.temperature = 2;
  check_near(shares(p), softmax({0.5, 1.5, 1, 1.5, -0.5}));
}

TEST_CASE("sampler: top-k, top-p and min-p cut the tail and keep the proportions") {
  const double inf = std::numeric_limits<double>::infinity();
  SamplingParams p;
  p.top_k = 3;
  check_near(shares(p), softmax({-inf, 3, 2, 3, -inf}));
  p = {};
  p.top_p = 0.5f;  // the first two hold .80, the first alone .40
  check_near(shares(p), softmax({-inf, 3, -inf, 3, -inf}));
  p = {};
  p.min_p = 0.2f;  // exp(-1) = .37 stays, exp(-2) = .14 goes
  check_near(shares(p), softmax({-inf, 3, 2, 3, -inf}));
  p = {};
  p.top_p = 1e-6f;  // never empty
  CHECK(once(p).id == 1);
}

TEST_CASE("sampler: the same seed gives the same tokens, another one others") {
  const auto draw = [](uint64_t seed) {
    SamplingParams p;
    p.seed = seed;
    Sampler sampler(p, {}, 64);
    std::vector<int32_t> ids;
    for (int i = 0; i < 32; i++) {
      std::vector<float> flat(64, 0.0f);
      ids.push_back(sampler.sample(flat).id);
    }
    return ids;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
  const std::vector<int32_t> ids = draw(3);
  CHECK(std::set<int32_t>(ids.begin(), ids.end()).size() > 15);
}

TEST_CASE("sampler: penalties") {
  SamplingParams p;
  p.temperature = 0;
  p.repetition_penalty = 2;
  CHECK(once(p, kLogits, {1, 3}).id == 2);      // 3 / 2 < 2
  CHECK(once(p, {-1.0f, -1.5f}, {0}).id == 1);  // negative logits move away too
  p = {};
  p.temperature = 0;
  p.presence_penalty = 1.5f;
  Sampler presence(p, std::vector<int32_t>{1}, 5);  // the prompt does not count
  std::vector<int32_t> ids;
  for (int i = 0; i < 3; i++) {
    std::vector<float> logits = kLogits;
    ids.push_back(presence.sample(logits).id);
  }
  CHECK(ids == std::vector<int32_t>{1, 3, 2});
  p = {};
  p.temperature = 0;
  p.frequency_penalty = 0.6f;
  Sampler frequency(p, {}, 2);
  ids.clear();
  for (int i = 0; i < 4; i++) {
    std::vector<float> logits = {1.0f, 0.0f};
    ids.push_back(frequency.sample(logits).id);
  }
  CHECK(ids == std::vector<int32_t>{0, 0, 1, 0});
}

TEST_CASE("sampler: logit bias") {
  SamplingParams p;
  p.temperature = 0;
  p.logit_bias = {{4, 100.0f}};
  CHECK(once(p).id == 4);
}

TEST_CASE("sampler: logprobs are of the model's own distribution") {
  SamplingParams p;
  p.temperature = 0;
  p.logprobs = 2;
  p.logit_bias = {{2, 50.0f}};
  const SampledToken token = once(p);
  const std::vector<double> want = softmax({1, 3, 2, 3, -1});
  CHECK(token.id == 2);
  CHECK(token.logprob == doctest::Approx(std::log(want[2])));
  REQUIRE(token.top_logprobs.size() == 2);
  CHECK(token.top_logprobs[0].first == 1);
  CHECK(token.top_logprobs[1].first == 3);
  CHECK(token.top_logprobs[0].second == doctest::Approx(std::log(want[1])));
  p.logprobs = -1;
  CHECK(std::isnan(once(p).logprob));
}

TEST_CASE("sampler: only tokens that the mask allows") {
  std::vector<float> logits(70, 0.0f);
  logits[3] = 9;
  logits[69] = 5;
  const auto choose = [&](const SamplingParams& p, std::vector<uint32_t> mask) {
    std::vector<float> scratch = logits;
    return Sampler(p, {}, 70).sample(scratch, mask);
  };
  SamplingParams p;
  p.temperature = 0;
  CHECK(choose(p, {}).id == 3);
  CHECK(choose(p, {~0u, ~0u, ~0u}).id == 3);
  CHECK(choose(p, {~8u, ~0u, ~0u}).id == 69);
  CHECK(choose(p, {~8u, ~0u}).id == 0);  // ids past its end are left out
  CHECK(choose(p, {0, 1u << 31, 0}).id == 63);
  CHECK_THROWS_AS(choose(p, {0, 0, ~63u}), Error);  // only bits that stand for no token

  p.temperature = 1;
  p.logprobs = 1;
  for (p.seed = 0; p.seed < 20; p.seed++) {
    const SampledToken token = choose(p, {6, 0, 0});
    CHECK((token.id == 1 || token.id == 2));
    CHECK(token.top_logprobs[0].first == 3);  // the model's own distribution
  }
  p.top_k = 2;
  p.top_p = 0.5f;
  CHECK(choose(p, {1u << 7, 0, 0}).id == 7);
}

TEST_CASE("sampler: values outside their range are refused by name") {
  const auto refused = [](auto change, const char* name) {
    SamplingParams p;
    change(p);
    try {
      Sampler(p, {}, 5);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::Input);
      CHECK(std::string(e.what()).find(name) != std::string::npos);
      return;
    }
    FAIL("accepted: " << name);
  };
  const float nan = std::nanf("");
  refused([](auto& p) { p.temperature = -1; }, "temperature");
  refused([&](auto& p) { p.temperature = nan; }, "temperature");
  refused([](auto& p) { p.top_p = 0; }, "top_p");
  refused([](auto& p) { p.top_p = 1.1f; }, "top_p");
  refused([](auto& p) { p.top_k = -1; }, "top_k");
  refused([&](auto& p) { p.min_p = nan; }, "min_p");
  refused([](auto& p) { p.repetition_penalty = 0; }, "repetition_penalty");
  refused([](auto& p) { p.presence_penalty = 1e9f; }, "presence_penalty");
  refused([](auto& p) { p.max_tokens = 0; }, "max_tokens");
  refused([](auto& p) { p.logprobs = 6; }, "logprobs");
  refused([](auto& p) { p.logit_bias = {{5, 1.0f}}; }, "logit_bias");
  refused([](auto& p) { p.logit_bias = {{1, 101.0f}}; }, "logit_bias");
}

namespace {

TopLogits top_of(const std::vector<float>& logits, int count) {
  TopLogits top;
  for (size_t i = 0; i < logits.size(); i++) top.best.emplace_back(logits[i], int32_t(i));
  std::ranges::sort(top.best, [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  double sum = 0;
  for (const float l : logits) sum += std::exp(double(l));
  top.log_sum_exp = float(std::log(sum));
  top.best.resize(size_t(count));
  return top;
}

}  // namespace

TEST_CASE("the largest logits choose the same tokens as all of them") {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 3);
  for (SamplingParams params : {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0, .logprobs = 4},
                                SamplingParams{.temperature = 0.7f, .top_k = 20},
                                SamplingParams{.temperature = 1.3f, .top_p = 0.8f, .top_k = 20, .logprobs = 3},
                                SamplingParams{.temperature = 1, .top_k = 7, .min_p = 0.1f}}) {
    params.seed = 11;
    Sampler all(params, {}, 500), few(params, {}, 500);
    const int count = few.candidates();
    REQUIRE(count > 0);
    for (int step = 0; step < 50; step++) {
      std::vector<float> logits(500);
      for (float& l : logits) l = std::round(normal(random) * 4) / 4;  // with ties
      const TopLogits top = top_of(logits, count);
      const SampledToken a = all.sample(logits), b = few.sample(top);
      CHECK(a.id == b.id);
      CHECK(std::isnan(a.logprob) == std::isnan(b.logprob));
      if (!std::isnan(a.logprob)) CHECK(a.logprob == doctest::Approx(b.logprob).epsilon(1e-4));
      REQUIRE(a.top_logprobs.size() == b.top_logprobs.size());
      for (size_t i = 0; i < a.top_logprobs.size(); i++) CHECK(a.top_logprobs[i].first == b.top_logprobs[i].first);
    }
  }
}

TEST_CASE("what needs all logits says so") {
  for (SamplingParams params :
       {SamplingParams{}, SamplingParams{.temperature = 0, .presence_penalty = 1},
        SamplingParams{.top_k = 5, .repetition_penalty = 1.1f}, SamplingParams{.top_k = 5, .logit_bias = {{3, 1.0f}}}})
    CHECK(Sampler(params, {}, 100).candidates() == 0);
}
