#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "experts/policy.h"

using swiftlet::Policy;

namespace {

void pass(Policy& policy, std::initializer_list<int> keys) {
  policy.begin_pass(1);
  for (const int key : keys) policy.use(key);
}

std::vector<int> drain(Policy& policy) {
  std::vector<int> order;
  while (!policy.empty()) {
    order.push_back(policy.coldest());
    policy.remove(policy.coldest());
  }
  return order;
}

}  // namespace

TEST_CASE("policy: the least frequently used goes first, of two as frequent the older") {
  Policy policy(5, 100);
  pass(policy, {3, 0});
  pass(policy, {3, 1});
  pass(policy, {3, 0});
  pass(policy, {2});
  for (const int key : {3, 2, 1, 0, 4}) policy.insert(key);
  CHECK(drain(policy) == std::vector{4, 1, 2, 0, 3});
}

TEST_CASE("policy: a past use counts half after the half-life") {
  Policy policy(3, 10);
  pass(policy, {0, 0, 0});
  for (int i = 0; i < 9; ++i) pass(policy, {});
  pass(policy, {1});     // 1, against 3 / 2
  pass(policy, {2, 2});  // 2, against less than 3 / 2
  for (const int key : {0, 1, 2}) policy.insert(key);
  CHECK(drain(policy) == std::vector{1, 0, 2});
}

TEST_CASE("policy: frequencies outlive the slot") {
  Policy policy(2, 100);
  pass(policy, {0});
  pass(policy, {0});
  policy.insert(0);
  policy.remove(0);
  pass(policy, {1});
  policy.insert(0);
  policy.insert(1);
  CHECK(policy.coldest() == 1);
}

TEST_CASE("policy: within a pass the one just used goes first") {
  Policy policy(4, 100);
  for (int repeat = 0; repeat < 3; ++repeat) pass(policy, {0, 1, 2, 3});
  for (const int key : {2, 0, 3, 1}) policy.insert(key);
  CHECK(drain(policy) == std::vector{3, 2, 1, 0});
}

TEST_CASE("policy: a loop over more keys than there are slots keeps a part of them") {
  constexpr int kKeys = 100, kSlots = 40;
  Policy policy(kKeys, 300);
  std::set<int> resident;
  int hits = 0;
  for (int loop = 0; loop < 5; ++loop) {
    policy.begin_pass(1);
    for (int key = 0; key < kKeys; ++key) {
      policy.use(key);
      if (resident.contains(key)) {
        ++hits;
        continue;
      }
      if (resident.size() == kSlots) {
        resident.erase(policy.coldest());
        policy.remove(policy.coldest());
      }
      resident.insert(key);
      policy.insert(key);
    }
  }
  CHECK(hits >= 4 * (kSlots - 1));  // last-used-goes-last would have none
}

TEST_CASE("policy: a guess replaces what would not be hotter than it, once it came true") {
  Policy policy(4, 100);
  for (int i = 0; i < 5; ++i) pass(policy, {0, 1, 2});
  pass(policy, {0, 1});
  pass(policy, {0});
  CHECK_FALSE(policy.guess_may_replace(2, 0));
  CHECK(policy.guess_may_replace(2, 1));
  CHECK(policy.guess_may_replace(1, 2));
  CHECK_FALSE(policy.guess_may_replace(3, 2));
  CHECK(policy.guess_may_replace(0, 3));
}

TEST_CASE("policy: the heap agrees with a search, over many half-lives") {
  // The half-life of half a pass makes the weights outgrow their range and be scaled down several times.
  for (const double half_life : {0.5, 3.0, 200.0}) {
    constexpr int kKeys = 64;
    Policy policy(kKeys, half_life);
    std::vector<double> score(kKeys, 0.0);  // scaled down each pass: the definition
    std::vector<int> last_use(kKeys, 0);
    std::set<int> inside;
    std::mt19937 random(7);
    int uses = 0;
    for (int step = 0; step < 2000; ++step) {
      policy.begin_pass(1);
      for (double& s : score) s *= std::exp2(-1 / half_life);
      for (int i = 0; i < 4; ++i) {
        const int key = static_cast<int>(random() % kKeys);
        policy.use(key);
        score[key] += 1;
        last_use[key] = ++uses;
        const int other = static_cast<int>(random() % kKeys);
        if (inside.erase(other)) {
          policy.remove(other);
        } else {
          inside.insert(other);
          policy.insert(other);
        }
        REQUIRE(policy.contains(other) == inside.contains(other));
      }
      REQUIRE(policy.empty() == inside.empty());
      if (inside.empty()) continue;
      double least = score[*inside.begin()];
      for (const int key : inside) least = std::min(least, score[key]);
      // Rounding differs between the two ways to decay, so equal scores may come apart: the coldest is one of the
      // least.
      REQUIRE(score[policy.coldest()] <= least * (1 + 1e-9));
    }
    // In the end everything comes out in order.
    double previous = -1;
    for (const int key : drain(policy)) {
      CHECK(score[key] >= previous * (1 - 1e-9));
      previous = score[key];
    }
  }
}

TEST_CASE("policy: a chunk ages what came before it by its tokens") {
  // Key 0 was used by the last 20 tokens of an answer, key 1 by the prompt that follows and by the token after it.
  const auto colder_after = [](int prompt_tokens) {
    Policy policy(2, 16);
    for (int i = 0; i < 20; ++i) {
      policy.begin_pass(1);
      policy.use(0);
    }
    policy.begin_pass(prompt_tokens);
    policy.use(1);
    policy.begin_pass(1);
    policy.use(1);
    return policy.colder(0, 1);
  };
  CHECK_FALSE(colder_after(1));
  CHECK(colder_after(512));
  CHECK(colder_after(1 << 20));  // no overflow of the weight
}
