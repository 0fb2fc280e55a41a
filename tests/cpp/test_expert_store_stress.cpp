#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/error.h"
#include "experts/expert_store.h"
#include "fake_experts.h"

using namespace swiftlet;

namespace {

constexpr int kLayers = 6, kExperts = 40, kMinSlots = 4, kMaxSlots = 60;

// A disk that is fast, slow or broken, at random.
class RandomDisk {
 public:
  explicit RandomDisk(uint64_t failures_per_thousand) : failures_(failures_per_thousand) {}

  void read(int layer, int expert, std::byte* slot, uint64_t bytes) {
    thread_local std::mt19937 random{std::random_device{}()};
    const uint64_t luck = random() % 1000;
    if (luck < 50) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    fill_blob(layer, expert, slot, bytes / 2);
    if (luck >= 1000 - failures_) throw std::runtime_error("bad luck");
    fill_blob(layer, expert, slot, bytes);
  }

 private:
  uint64_t failures_;
};

std::vector<int32_t> choose(std::mt19937& random, size_t count) {
  std::vector<int32_t> ids;
  for (int id = 0; id < kExperts; ++id)
    if (random() % kExperts < count) ids.push_back(id);
  return ids;
}

// What a user does with an expert to bring it into an order of its own: undone when it is done twice.
void turn(std::byte* slot, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) slot[i] = ~slot[i];
}

bool holds_turned(int layer, int expert, const std::byte* slot) {
  std::vector<std::byte> copy(slot, slot + kStride);
  turn(copy.data(), kStride);
  return holds_blob(layer, expert, copy.data(), kStride);
}

// Runs the computing thread against a thread that changes the budget. What is checked: every expert asked for is handed
// out once and whole, in order where that was asked; the memory never exceeds the budget, or what was in use when the
// budget fell; nothing hangs. With `user_orders` the computing thread turns what lies as it was read, and breaks off in
// the middle of that now and then.
void stress(double seconds, uint64_t failures_per_thousand, int io_threads, unsigned seed, uint64_t host_slots = 0,
            bool user_orders = false) {
  RandomDisk disk(failures_per_thousand);
  MemoryWatch memory;
  ExpertStoreOptions options;
  options.budget_bytes = kMaxSlots * kStride;
  options.io_threads = io_threads;
  options.read = [&](int layer, int expert, std::byte* slot, uint64_t bytes) { disk.read(layer, expert, slot, bytes); };
  options.user_orders = user_orders;
  FakeHeap heap;
  if (host_slots) {
    options.heap = &heap;
    options.host_bytes = host_slots * kStride;
  }
  const auto whole = [&](int layer, const ReadyExpert& r) {
    if (user_orders && !*r.as_read) return holds_turned(layer, r.expert, r.slot);
    return holds_blob(layer, r.expert, host_slots ? FakeHeap::here(r.slot) : r.slot, kStride);
  };
  memory.attach(options);
  // The moment a slot is added is the moment the budget could be exceeded.
  std::atomic<uint64_t> budget = options.budget_bytes;
  std::atomic<int> over_budget = 0;
  const auto added = options.on_memory_added;
  options.on_memory_added = [&](const std::byte* base, size_t bytes) {
    added(base, bytes);
    if (memory.bytes() > budget) ++over_budget;
  };
  ExpertStore store(fake_qpack(kLayers, kExperts), options, kMinSlots);

  std::atomic<bool> done = false;
  std::thread pressure([&] {
    std::mt19937 random(seed + 1);
    while (!done) {
      const uint64_t slots = kMinSlots + random() % (kMaxSlots - kMinSlots + 1);
      const uint64_t bytes = slots * kStride;
      // The bound that is looked at must be the higher one while the budget changes.
      if (bytes > budget) budget = bytes;
      store.set_budget(bytes);
      budget = bytes;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    }
  });

  std::mt19937 random(seed);
  uint64_t asked = 0, wrong = 0, requests = 0, failures = 0, turned = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const bool prefill = random() % 4 == 0;
      const std::vector<int32_t> ids = choose(random, prefill ? 30 : 6);
      const bool in_order = random() % 2 == 0;
      const bool cancel = random() % 8 == 0;
      ++requests;
      asked += ids.size();
      ExpertStore::Request request = store.request(layer, ids);
      if (random() % 2) store.guess((layer + 1) % kLayers, choose(random, 6));
      if (random() % 10 == 0) store.drop_guesses();
      std::vector<int32_t> taken;
      try {
        for (;;) {
          if (cancel && random() % 4 == 0) break;
          const std::vector<ReadyExpert> ready = request.next(in_order);
          if (ready.empty()) break;
          for (const ReadyExpert& r : ready) {
            wrong += !whole(layer, r);
            taken.push_back(r.expert);
          }
          bool broken_off = false;
          for (const ReadyExpert& r : ready) {
            if (!*r.as_read || broken_off) continue;
            broken_off = cancel && random() % 4 == 0;
            turn(r.slot, broken_off ? random() % kStride : kStride);
            *r.as_read = broken_off;
            ++turned;
          }
          if (broken_off) break;
          if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
          for (const ReadyExpert& r : ready) wrong += !whole(layer, r);
        }
      } catch (const Error& error) {
        REQUIRE(error.kind() == ErrorKind::Io);
        ++failures;
        continue;
      }
      if (cancel) continue;
      if (!in_order) std::ranges::sort(taken);
      REQUIRE(taken == ids);
    }
  }
  done = true;
  pressure.join();
  const ExpertStats stats = store.stats();
  INFO(requests << " requests, " << asked << " experts, hits " << stats.hits << ", reads " << stats.reads
                << ", evictions " << stats.evictions << ", guesses " << stats.guesses << " (" << stats.guess_hits
                << " right), failures " << failures);
  CHECK(wrong == 0);
  CHECK(over_budget == 0);
  CHECK(memory.most() <= kMaxSlots * kStride);
  CHECK(memory.bytes() <= budget);
  CHECK(stats.hits + stats.misses == asked);
  CHECK(stats.guess_hits <= stats.guesses);
  CHECK((failures > 0) == (failures_per_thousand > 0));
  CHECK((stats.host_hits > 0) == (host_slots > 0));
  CHECK((turned > 0) == user_orders);
}

}  // namespace

// SWIFTLET_STRESS_SECONDS makes it longer.
TEST_CASE("experts: random requests, cancels, guesses and budgets at the same time") {
  const char* text = std::getenv("SWIFTLET_STRESS_SECONDS");
  const double seconds = text ? std::atof(text) : 3;
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  stress(seconds / 3, 0, 8, seed);
  stress(seconds / 3, 0, 1, seed);
  stress(seconds / 3, 5, 4, seed);
}

TEST_CASE("experts: the same on a device, with as little host memory as there can be, and with much") {
  const char* text = std::getenv("SWIFTLET_STRESS_SECONDS");
  const double seconds = text ? std::atof(text) : 3;
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  stress(seconds / 3, 0, 8, seed, 16);
  stress(seconds / 3, 5, 1, seed, 2);
  stress(seconds / 3, 5, 4, seed, 100);
}

TEST_CASE("experts: the same with a user that brings them into an order of its own, and breaks off half way") {
  const char* text = std::getenv("SWIFTLET_STRESS_SECONDS");
  const double seconds = text ? std::atof(text) : 3;
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  stress(seconds / 3, 0, 8, seed, 0, true);
  stress(seconds / 3, 0, 1, seed, 0, true);
  stress(seconds / 3, 5, 4, seed, 0, true);
}
