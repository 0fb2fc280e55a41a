#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>

#include "base/error.h"
#include "experts/expert_store.h"
#include "experts/io_bench.h"
#include "fake_experts.h"
#include "temp_folder.h"

using namespace swiftlet;

namespace {

using Ids = std::vector<int32_t>;
using Keys = std::vector<FakeDisk::Key>;

// A store on a fake disk, with room for `slots` experts.
struct Bench {
  FakeDisk disk;
  MemoryWatch memory;
  ExpertStoreOptions options;
  std::optional<ExpertStore> store;

  Bench(int layers, int experts, int slots, int io_threads = 1, int min_slots = 1) {
    options.budget_bytes = slots * kStride;
    options.io_threads = io_threads;
    options.read = disk.reader();
    memory.attach(options);
    store.emplace(fake_qpack(layers, experts), options, min_slots);
  }
};

Ids range(int begin, int end) {
  Ids ids(end - begin);
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

// The ids in the order they were handed out. Checks every blob.
Ids take(ExpertStore::Request& request, int layer, bool in_order, uint64_t bytes = kStride) {
  Ids taken;
  for (;;) {
    const std::vector<ReadyExpert> ready = request.next(in_order);
    if (ready.empty()) return taken;
    for (const ReadyExpert& r : ready) {
      CHECK(reinterpret_cast<uintptr_t>(r.slot) % 16384 == 0);
      CHECK(holds_blob(layer, r.expert, r.slot, bytes));
      taken.push_back(r.expert);
    }
  }
}

Ids take(ExpertStore& store, int layer, const Ids& ids, bool in_order, uint64_t bytes = kStride) {
  ExpertStore::Request request = store.request(layer, ids);
  return take(request, layer, in_order, bytes);
}

Ids ids_of(const std::vector<ReadyExpert>& ready) {
  Ids ids;
  for (const ReadyExpert& r : ready) ids.push_back(r.expert);
  return ids;
}

Ids sorted(Ids ids) {
  std::ranges::sort(ids);
  return ids;
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void write_experts(const Qpack& qpack) {
  for (int layer = 0; layer < qpack.layer_count; ++layer) {
    const uint64_t stride = qpack.layouts[layer].stride;
    std::string bytes(stride * qpack.expert_count, '\0');
    for (int expert = 0; expert < qpack.expert_count; ++expert)
      fill_blob(layer, expert, reinterpret_cast<std::byte*>(bytes.data()) + stride * expert, stride);
    if (stride > 0) write_file(qpack.layer_path(layer), bytes);
  }
}

}  // namespace

TEST_CASE("experts: hits, misses and bytes are counted exactly") {
  Bench bench(2, 8, 6, 4);
  CHECK(take(*bench.store, 0, {1, 3, 5}, true) == Ids{1, 3, 5});
  CHECK(take(*bench.store, 1, {1, 3}, true) == Ids{1, 3});
  CHECK(sorted(take(*bench.store, 0, {1, 2, 5}, false)) == Ids{1, 2, 5});
  CHECK(sorted(take(*bench.store, 1, {0, 3}, false)) == Ids{0, 3});  // the pool is full: one goes
  const ExpertStats stats = bench.store->stats();
  CHECK(stats.hits == 3);
  CHECK(stats.misses == 7);
  CHECK(stats.reads == 7);
  CHECK(stats.bytes_read == 7 * kStride);
  CHECK(stats.evictions == 1);
  CHECK(stats.guesses == 0);
  CHECK(bench.store->resident_bytes() == 6 * kStride);
  CHECK(bench.memory.most() == 6 * kStride);
}

TEST_CASE("experts: one that its user did not bring into order is read again") {
  Bench bench(1, 8, 6, 2);
  bench.options.user_orders = true;
  bench.store.emplace(fake_qpack(1, 8), bench.options, 1);
  const auto take_flags = [&](const Ids& ids, const Ids& ordered) {
    std::vector<bool> flags;
    ExpertStore::Request request = bench.store->request(0, ids);
    for (std::vector<ReadyExpert> ready; !(ready = request.next(true)).empty();)
      for (const ReadyExpert& r : ready) {
        CHECK(holds_blob(0, r.expert, r.slot, kStride));
        flags.push_back(*r.as_read);
        if (std::ranges::find(ordered, r.expert) != ordered.end()) *r.as_read = false;
      }
    return flags;
  };
  CHECK(take_flags({1, 3, 5}, {1, 5}) == std::vector{true, true, true});
  CHECK(take_flags({1, 3, 5}, {3}) == std::vector{false, true, false});
  CHECK(bench.store->stats().reads == 4);
  CHECK(bench.store->stats().evictions == 1);
  CHECK(take_flags({1, 3, 5}, {}) == std::vector{false, false, false});
  CHECK(bench.store->stats().reads == 4);

  // What was never handed out is whole.
  {
    const ExpertStore::Request request = bench.store->request(0, Ids{2});
    CHECK(eventually([&] { return bench.store->stats().reads == 5; }));
  }
  CHECK(take_flags({2}, {2}) == std::vector{true});
  CHECK(bench.store->stats().reads == 5);
  CHECK(bench.store->stats().hits == 6);
}

TEST_CASE("experts: memory comes as it is used, and goes with the store") {
  Bench bench(1, 60, 50);
  CHECK(bench.memory.bytes() == 0);
  take(*bench.store, 0, {2, 7}, true);
  CHECK(bench.memory.bytes() == 32 * kStride);  // a segment
  take(*bench.store, 0, range(0, 32), true);
  CHECK(bench.memory.bytes() == 32 * kStride);
  take(*bench.store, 0, {32}, true);
  CHECK(bench.memory.bytes() == 50 * kStride);
  CHECK(bench.store->resident_bytes() == 50 * kStride);
  bench.store.reset();
  CHECK(bench.memory.bytes() == 0);
}

TEST_CASE("experts: hits come at once, misses as they land") {
  Bench bench(1, 8, 8, 8);
  take(*bench.store, 0, {0, 4}, true);
  bench.disk.hold();
  ExpertStore::Request request = bench.store->request(0, Ids{0, 2, 4, 6});
  SUBCASE("in any order") {
    CHECK(ids_of(request.next(false)) == Ids{0, 4});
    bench.disk.let(0, 6);
    CHECK(ids_of(request.next(false)) == Ids{6});
    bench.disk.let(0, 2);
    CHECK(ids_of(request.next(false)) == Ids{2});
  }
  SUBCASE("in order") {
    CHECK(ids_of(request.next(true)) == Ids{0});
    bench.disk.let(0, 6);
    bench.disk.let(0, 2);
    bench.disk.wait_until_idle();
    REQUIRE(eventually([&] { return bench.store->stats().reads == 4; }));
    CHECK(ids_of(request.next(true)) == Ids{2, 4, 6});
  }
  SUBCASE("first the one, then the other") {
    CHECK(ids_of(request.next(false)) == Ids{0, 4});
    bench.disk.let_all();
    CHECK(take(request, 0, true) == Ids{2, 6});
  }
  CHECK(request.next(false).empty());
  CHECK(request.next(true).empty());
}

TEST_CASE("experts: eight reads in flight, begun in the order of the request") {
  Bench bench(1, 32, 32, 8);
  bench.disk.hold();
  ExpertStore::Request request = bench.store->request(0, range(0, 32));
  bench.disk.wait_until_begun(8);
  CHECK(bench.disk.most_at_once() == 8);
  bench.disk.let_all();
  CHECK(take(request, 0, true) == range(0, 32));
  Keys begun = bench.disk.begun();
  CHECK(bench.disk.most_at_once() == 8);
  std::ranges::sort(begun);
  CHECK(begun.size() == 32);

  Bench one(1, 32, 32, 1);
  take(*one.store, 0, range(0, 32), true);
  CHECK(std::ranges::is_sorted(one.disk.begun()));
}

TEST_CASE("experts: a request of more experts than there are slots is windowed") {
  for (const bool in_order : {true, false}) {
    for (const int slots : {1, 2, 3, 8}) {
      for (const int io_threads : {1, 8}) {
        CAPTURE(in_order);
        CAPTURE(slots);
        CAPTURE(io_threads);
        Bench bench(2, 64, slots, io_threads);
        const Ids all = range(0, 64);
        for (int pass = 0; pass < 3; ++pass) {
          for (int layer = 0; layer < 2; ++layer) {
            const Ids taken = take(*bench.store, layer, all, in_order);
            CHECK((in_order ? taken : sorted(taken)) == all);
          }
        }
        const ExpertStats stats = bench.store->stats();
        CHECK(stats.hits + stats.misses == 3 * 2 * 64);
        CHECK(stats.reads == stats.misses);
        CHECK(bench.memory.most() == slots * kStride);
      }
    }
  }
}

TEST_CASE("experts: in order, hits further on give way to the next expert") {
  Bench bench(1, 8, 3);
  take(*bench.store, 0, {5, 6, 7}, true);  // all slots
  ExpertStore::Request request = bench.store->request(0, Ids{0, 1, 5, 6, 7});
  CHECK(bench.store->stats().hits == 3);
  CHECK(take(request, 0, true) == Ids{0, 1, 5, 6, 7});
  const ExpertStats stats = bench.store->stats();
  CHECK(stats.hits == 2);  // 7 gave way and was read again
  CHECK(stats.misses == 3 + 3);
  CHECK(bench.disk.begun() == Keys{{0, 5}, {0, 6}, {0, 7}, {0, 0}, {0, 1}, {0, 7}});
  CHECK(bench.memory.most() == 3 * kStride);
}

TEST_CASE("experts: a sweep leaves the hot ones in their slots") {
  constexpr int kHot = 8;
  Bench bench(2, 64, 24, 4);
  const Ids hot = range(0, kHot);
  for (int token = 0; token < 20; ++token)
    for (int layer = 0; layer < 2; ++layer) take(*bench.store, layer, hot, false);
  for (int layer = 0; layer < 2; ++layer) take(*bench.store, layer, range(0, 64), true);  // a prompt
  const ExpertStats before = bench.store->stats();
  for (int layer = 0; layer < 2; ++layer) take(*bench.store, layer, hot, false);
  CHECK(bench.store->stats().hits - before.hits == 2 * kHot);
}

TEST_CASE("experts: a long prompt finds a part of its last chunk in the pool") {
  constexpr int kLayers = 8, kSlots = 64;
  Bench bench(kLayers, 16, kSlots, 1);
  for (int chunk = 0; chunk < 4; ++chunk)
    for (int layer = 0; layer < kLayers; ++layer) take(*bench.store, layer, range(0, 16), true);
  // Half of the experts fit. All but the slots that the reads pass through are hits, from the second chunk on.
  CHECK(bench.store->stats().hits >= 3 * (kSlots - 4));
}

TEST_CASE("experts: a destroyed request drops what has not begun and keeps what has") {
  Bench bench(1, 16, 16, 2);
  bench.disk.hold();
  {
    ExpertStore::Request request = bench.store->request(0, range(0, 10));
    bench.disk.wait_until_begun(2);
  }
  bench.disk.let_all();
  REQUIRE(eventually([&] { return bench.store->stats().reads == 2; }));
  take(*bench.store, 0, {0, 1}, true);
  const ExpertStats stats = bench.store->stats();
  CHECK(stats.hits == 2);
  CHECK(stats.reads == 2);
  CHECK(bench.disk.begun().size() == 2);
}

TEST_CASE("experts: a request joins the read that a destroyed one began") {
  Bench bench(1, 16, 16, 2);
  bench.disk.hold();
  {
    const ExpertStore::Request request = bench.store->request(0, Ids{3}), &alive = request;
    (void)alive;
    bench.disk.wait_until_begun(1);
  }
  ExpertStore::Request request = bench.store->request(0, Ids{3, 4});
  bench.disk.let_all();
  CHECK(take(request, 0, true) == Ids{3, 4});
  CHECK(bench.store->stats().misses == 3);
  CHECK(bench.disk.begun() == Keys{{0, 3}, {0, 4}});
}

TEST_CASE("experts: one request at a time") {
  Bench bench(1, 8, 4);
  ExpertStore::Request first = bench.store->request(0, Ids{1});
  CHECK(lacks(error_of(ErrorKind::Input, [&] { bench.store->request(0, Ids{2}); }), {"open already"}) == "");
  take(first, 0, true);
  first = bench.store->request(0, Ids{2});  // the first is over
  CHECK(take(first, 0, true) == Ids{2});
  CHECK(take(*bench.store, 0, {}, true).empty());
}

TEST_CASE("experts: nonsense is refused") {
  Bench bench(2, 8, 4, 1, 4);
  ExpertStore& store = *bench.store;
  CHECK(lacks(error_of(ErrorKind::Input, [&] { store.request(2, Ids{0}); }), {"layer 2"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { store.request(-1, Ids{0}); }), {"layer -1"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { store.request(0, Ids{8}); }), {"no expert 8", "8"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { store.request(0, Ids{-1}); }), {"no expert -1"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { store.request(0, Ids{3, 3}); }), {"ascend"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { store.guess(1, Ids{9}); }), {"no expert 9"}) == "");
  CHECK(lacks(error_of(ErrorKind::Memory, [&] { store.set_budget(4 * kStride - 1); }), {"65535", "65536"}) == "");
  CHECK(store.budget() == 4 * kStride);

  ExpertStoreOptions options = bench.options;
  options.budget_bytes = 3 * kStride;
  CHECK(lacks(error_of(ErrorKind::Memory, [&] { ExpertStore(fake_qpack(2, 8), options, 4); }), {"49152", "65536"}) ==
        "");
  options.budget_bytes = 4 * kStride;
  options.half_life = 0;
  CHECK(lacks(error_of(ErrorKind::Input, [&] { ExpertStore(fake_qpack(2, 8), options, 4); }), {"half-life"}) == "");
  options.io_threads = 0;
  CHECK(lacks(error_of(ErrorKind::Input, [&] { ExpertStore(fake_qpack(2, 8), options, 4); }), {"I/O threads"}) == "");
}

// Guesses ---------------------------------------------------------------------------------------------

TEST_CASE("experts: a guess read in time is a hit") {
  Bench bench(2, 8, 8, 2);
  take(*bench.store, 0, {0}, true);
  bench.store->guess(1, Ids{4, 5, 6});
  REQUIRE(eventually([&] { return bench.store->stats().reads == 4; }));
  CHECK(sorted(take(*bench.store, 1, {3, 5, 6}, false)) == Ids{3, 5, 6});
  const ExpertStats stats = bench.store->stats();
  CHECK(stats.guesses == 3);
  CHECK(stats.guess_hits == 2);
  CHECK(stats.hits == 2);
  CHECK(stats.misses == 2);
  CHECK(stats.reads == 5);
}

TEST_CASE("experts: a guess in flight is joined, a queued one is promoted, the wrong ones are dropped") {
  Bench bench(2, 8, 8, 2);
  bench.disk.hold();
  bench.store->guess(1, Ids{0, 1, 2, 3, 4});
  bench.disk.wait_until_begun(2);  // 0 and 1
  ExpertStore::Request request = bench.store->request(1, Ids{1, 3});
  bench.disk.let_all();
  CHECK(take(request, 1, true) == Ids{1, 3});
  bench.disk.wait_until_idle();
  Keys begun = bench.disk.begun();
  std::ranges::sort(begun);
  CHECK(begun == Keys{{1, 0}, {1, 1}, {1, 3}});
  const ExpertStats stats = bench.store->stats();
  CHECK(stats.hits == 0);
  CHECK(stats.misses == 2);
  CHECK(stats.guesses == 2);
  CHECK(stats.guess_hits == 1);
}

TEST_CASE("experts: what is needed goes before guesses") {
  Bench bench(3, 8, 8, 1);
  take(*bench.store, 0, {}, true);
  bench.disk.hold();
  bench.store->guess(2, Ids{0});
  bench.disk.wait_until_begun(1);
  bench.store->guess(2, Ids{1, 2});
  ExpertStore::Request request = bench.store->request(1, Ids{5, 6});
  bench.disk.let_all();
  take(request, 1, true);
  bench.disk.wait_until_begun(5);
  CHECK(bench.disk.begun() == Keys{{2, 0}, {1, 5}, {1, 6}, {2, 1}, {2, 2}});
}

TEST_CASE("experts: guesses leave threads for what is needed") {
  Bench bench(3, 8, 16, 8);
  take(*bench.store, 0, {}, true);
  bench.disk.hold();
  bench.store->guess(2, range(0, 8));
  bench.disk.wait_until_begun(2);
  ExpertStore::Request request = bench.store->request(1, range(0, 6));
  bench.disk.wait_until_begun(8);
  size_t guessed = 0;
  for (const auto& [layer, expert] : bench.disk.begun()) guessed += layer == 2;
  CHECK(guessed == 2);
  bench.disk.let_all();
  take(request, 1, true);
}

TEST_CASE("experts: guesses hold a part of the pool, until the next pass at the latest") {
  Bench bench(2, 64, 128, 4);
  take(*bench.store, 0, {0}, true);
  bench.store->guess(1, range(0, 64));
  REQUIRE(eventually([&] { return bench.store->stats().reads == 1 + 32; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(bench.disk.begun().size() == 1 + 32);

  take(*bench.store, 0, {0}, true);  // the request for layer 1 never came
  bench.store->guess(1, range(32, 64));
  REQUIRE(eventually([&] { return bench.store->stats().reads == 1 + 64; }));
  take(*bench.store, 1, range(0, 64), true);
  CHECK(bench.store->stats().hits == 1 + 64);
  CHECK(bench.store->stats().guess_hits == 64);
}

TEST_CASE("experts: dropped guesses are not read") {
  Bench bench(3, 8, 8, 1);
  take(*bench.store, 0, {}, true);
  bench.disk.hold();
  bench.store->guess(2, Ids{0, 1, 2});
  bench.disk.wait_until_begun(1);
  bench.store->drop_guesses();
  bench.disk.let_all();
  take(*bench.store, 1, {1}, true);
  CHECK(bench.disk.begun() == Keys{{2, 0}, {1, 1}});
  bench.store->guess(2, Ids{1});  // may be guessed again
  bench.disk.wait_until_begun(3);
  CHECK(bench.disk.begun().back() == FakeDisk::Key{2, 1});
}

TEST_CASE("experts: a guess takes no slot from the hot, nor from another guess") {
  Bench bench(2, 16, 4, 1);
  for (int token = 0; token < 40; ++token) {
    take(*bench.store, 0, {0, 1}, false);
    take(*bench.store, 1, {2}, false);
  }
  take(*bench.store, 0, {0, 7}, false);  // 7 is cold, all slots are taken
  const size_t before = bench.disk.begun().size();
  bench.store->guess(1, Ids{8, 9, 10});
  REQUIRE(eventually([&] { return bench.store->stats().reads == before + 1; }));
  take(*bench.store, 0, {0, 1}, false);
  CHECK(bench.disk.begun().size() == before + 1);  // only 8, in the place of 7
  const ExpertStats stats = bench.store->stats();
  CHECK(sorted(take(*bench.store, 1, {2, 8}, false)) == Ids{2, 8});
  CHECK(bench.store->stats().hits - stats.hits == 2);
}

TEST_CASE("experts: a wrong guess is the first to go") {
  Bench bench(2, 16, 4, 1);
  take(*bench.store, 0, {0, 1}, false);
  take(*bench.store, 1, {2}, false);
  bench.store->guess(0, Ids{9});
  REQUIRE(eventually([&] { return bench.store->stats().reads == 4; }));
  take(*bench.store, 0, {0, 5}, false);  // not 9: it gives its slot to 5
  const ExpertStats before = bench.store->stats();
  take(*bench.store, 0, {0, 1, 5}, false);
  take(*bench.store, 1, {2}, false);
  CHECK(bench.store->stats().hits - before.hits == 4);
}

TEST_CASE("experts: a pool full of guesses still serves what is needed") {
  for (const bool in_order : {false, true}) {
    Bench bench(3, 16, 4, 2);
    take(*bench.store, 0, {}, true);
    bench.store->guess(2, range(0, 4));
    REQUIRE(eventually([&] { return bench.store->stats().reads == 4; }));
    CHECK(sorted(take(*bench.store, 1, range(0, 8), in_order)) == range(0, 8));
  }
}

// Errors ----------------------------------------------------------------------------------------------

TEST_CASE("experts: a read that fails names layer, expert and file, and the store goes on") {
  for (const bool in_order : {true, false}) {
    CAPTURE(in_order);
    Bench bench(2, 8, 4, 4);
    bench.disk.set_broken(1, 3);
    {
      ExpertStore::Request request = bench.store->request(1, Ids{2, 3, 4, 5, 6, 7});
      const std::string message = error_of(ErrorKind::Io, [&] {
        while (!request.next(in_order).empty()) {
        }
      });
      CHECK(lacks(message, {"expert 3 ", "layer 1 ", "/nowhere/packed_experts/layer_01.bin", "bad sector"}) == "");
      CHECK(error_of(ErrorKind::Io, [&] { request.next(in_order); }) == message);
    }
    bench.disk.wait_until_idle();
    take(*bench.store, 0, range(0, 8), in_order);
    bench.disk.set_broken(1, 3, false);
    const Ids ids{2, 3, 4, 5, 6, 7};
    CHECK(sorted(take(*bench.store, 1, ids, in_order)) == ids);
    CHECK(bench.memory.most() == 4 * kStride);
  }
}

TEST_CASE("experts: a guess that fails is nobody's error, until somebody needs the expert") {
  Bench bench(2, 8, 4, 1);
  bench.disk.set_broken(1, 3);
  bench.store->guess(1, Ids{3});
  bench.disk.wait_until_begun(1);
  CHECK(take(*bench.store, 0, range(0, 8), true) == range(0, 8));

  bench.disk.hold();
  bench.store->guess(1, Ids{3});
  bench.disk.wait_until_begun(10);
  ExpertStore::Request request = bench.store->request(1, Ids{3});  // joins the read
  bench.disk.let_all();
  CHECK(lacks(error_of(ErrorKind::Io, [&] { request.next(false); }), {"expert 3 "}) == "");
}

TEST_CASE("experts: memory that cannot be had is an error of the request") {
  Bench bench(1, 8, 4, 1);
  bench.options.on_memory_added = [](const std::byte*, size_t) { throw std::runtime_error("the GPU is full"); };
  ExpertStore store(fake_qpack(1, 8), bench.options, 1);
  store.guess(0, Ids{1});
  ExpertStore::Request request = store.request(0, Ids{2});
  CHECK(lacks(error_of(ErrorKind::Memory, [&] { request.next(false); }), {"the GPU is full"}) == "");
  CHECK(store.resident_bytes() == 0);
}

TEST_CASE("experts: closing the store waits for reads in flight and ends an open request") {
  Bench bench(1, 8, 8, 2);
  bench.disk.hold();
  std::optional<ExpertStore::Request> request = bench.store->request(0, range(0, 8));
  bench.disk.wait_until_begun(2);
  std::atomic<bool> closed = false;
  std::thread closing([&] {
    bench.store.reset();
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(closed);
  bench.disk.let_all();
  closing.join();
  CHECK(bench.disk.begun().size() == 2);
  CHECK(error_of(ErrorKind::Cancelled, [&] {
          while (!request->next(true).empty()) {
          }
        }) == "the expert store was closed during a request");
  CHECK(bench.memory.bytes() == 8 * kStride);  // the request may still look at its slots
  request.reset();
  CHECK(bench.memory.bytes() == 0);
}

// The budget ------------------------------------------------------------------------------------------

TEST_CASE("experts: shrinking gives the coldest back at once, growing takes memory on demand") {
  Bench bench(1, 16, 8, 1);
  for (int token = 0; token < 3; ++token) take(*bench.store, 0, {4, 5, 6}, false);
  take(*bench.store, 0, {0, 1, 2, 3}, false);
  bench.store->set_budget(3 * kStride + 100);
  CHECK(bench.memory.bytes() == 3 * kStride);
  CHECK(bench.store->resident_bytes() == 3 * kStride);
  const uint64_t hits = bench.store->stats().hits;
  take(*bench.store, 0, {4, 5, 6}, false);
  CHECK(bench.store->stats().hits - hits == 3);

  bench.store->set_budget(5 * kStride);
  CHECK(bench.memory.bytes() == 3 * kStride);
  take(*bench.store, 0, range(0, 16), true);
  CHECK(bench.memory.bytes() == 5 * kStride);
}

TEST_CASE("experts: shrinking keeps the hottest, wherever they lie") {
  Bench bench(1, 100, 100, 4);
  take(*bench.store, 0, range(0, 100), true);
  CHECK(bench.memory.bytes() == 100 * kStride);
  Ids hot;
  for (int id = 0; id < 100; id += 3) hot.push_back(id);  // 34 of them, in all segments
  take(*bench.store, 0, hot, true);
  for (const int slots : {70, 40, 36, 34}) {
    CAPTURE(slots);
    bench.store->set_budget(slots * kStride);
    CHECK(bench.memory.bytes() == slots * kStride);
    const ExpertStats before = bench.store->stats();
    CHECK(take(*bench.store, 0, hot, true) == hot);
    CHECK(bench.store->stats().hits - before.hits == hot.size());
  }
  bench.store->set_budget(10 * kStride);
  const uint64_t hits = bench.store->stats().hits;
  CHECK(take(*bench.store, 0, hot, true) == hot);
  CHECK(bench.store->stats().hits - hits == 10);
}

TEST_CASE("experts: shrinking during a request takes slots as they are released") {
  for (const bool in_order : {true, false}) {
    CAPTURE(in_order);
    Bench bench(1, 32, 8, 2);
    take(*bench.store, 0, range(8, 16), true);
    ExpertStore::Request request = bench.store->request(0, range(0, 32));
    const std::vector<ReadyExpert> in_use = request.next(in_order);
    Ids taken = ids_of(in_use);
    bench.store->set_budget(2 * kStride);
    CHECK(bench.store->resident_bytes() == 8 * kStride);  // one segment, not to be touched
    for (const ReadyExpert& r : in_use) CHECK(holds_blob(0, r.expert, r.slot, kStride));
    uint64_t resident = bench.store->resident_bytes();
    for (;;) {
      const Ids ids = ids_of(request.next(in_order));
      if (ids.empty()) break;
      taken.insert(taken.end(), ids.begin(), ids.end());
      CHECK(bench.store->resident_bytes() <= resident);
      resident = bench.store->resident_bytes();
    }
    CHECK((in_order ? taken : sorted(taken)) == range(0, 32));
    CHECK(bench.store->resident_bytes() == 2 * kStride);
    CHECK(bench.memory.most() == 8 * kStride);
  }
}

TEST_CASE("experts: a shrink while next() waits does not hang it") {
  Bench bench(1, 8, 4, 1);
  take(*bench.store, 0, {5, 6, 7}, true);
  ExpertStore::Request request = bench.store->request(0, Ids{0, 1, 5, 6, 7});
  bench.disk.hold();
  std::thread shrinking([&] {
    bench.disk.wait_until_begun(4);
    bench.store->set_budget(1 * kStride);
    bench.disk.let_all();
  });
  CHECK(take(request, 0, true) == Ids{0, 1, 5, 6, 7});
  shrinking.join();
  CHECK(bench.memory.bytes() == 1 * kStride);
}

// Files -----------------------------------------------------------------------------------------------

TEST_CASE("experts: blobs come from the layer's file, each with its layer's stride") {
  const TempFolder folder;
  Qpack qpack = fake_qpack(3, 5);
  qpack.path = folder.path();
  qpack.layouts[0].stride = 2 * kStride;
  qpack.layouts[1].stride = 0;  // a layer without experts has no file
  qpack.max_stride = 2 * kStride;
  write_experts(qpack);
  for (const IoMode mode : {IoMode::Auto, IoMode::Direct, IoMode::Buffered}) {
    ExpertStoreOptions options;
    options.budget_bytes = 4 * 2 * kStride;
    options.io = mode;
    ExpertStore store(qpack, options, 2);
    CHECK(store.slot_bytes() == 2 * kStride);
    for (int pass = 0; pass < 2; ++pass) {
      CHECK(take(store, 0, range(0, 5), true, 2 * kStride) == range(0, 5));
      CHECK(sorted(take(store, 2, range(0, 5), false, kStride)) == range(0, 5));
    }
    CHECK(lacks(error_of(ErrorKind::Input, [&] { store.request(1, Ids{0}); }), {"layer 1 has no experts"}) == "");
    if (mode == IoMode::Buffered) CHECK_FALSE(store.direct_io());
    if (mode == IoMode::Direct) CHECK(store.direct_io() == File(qpack.layer_path(0), true).direct());
    const ExpertStats stats = store.stats();
    CHECK(stats.bytes_read >= 5 * 3 * kStride);
  }
}

TEST_CASE("experts: files that are missing, short, or cut while open") {
  const TempFolder folder;
  Qpack qpack = fake_qpack(2, 4);
  qpack.path = folder.path();
  ExpertStoreOptions options;
  options.budget_bytes = 4 * kStride;
  const auto open = [&] { ExpertStore(qpack, options, 1); };
  CHECK(lacks(error_of(ErrorKind::Container, open), {"layer_00.bin"}) == "");
  write_experts(qpack);
  std::filesystem::resize_file(qpack.layer_path(1), 4 * kStride - 1);
  CHECK(lacks(error_of(ErrorKind::Container, open), {"layer_01.bin", "65535", "repack"}) == "");

  write_experts(qpack);
  for (const IoMode mode : {IoMode::Direct, IoMode::Buffered}) {
    options.io = mode;
    ExpertStore store(qpack, options, 1);
    std::filesystem::resize_file(qpack.layer_path(1), 3 * kStride + 4096);
    ExpertStore::Request request = store.request(1, Ids{3});
    const std::string message = error_of(ErrorKind::Io, [&] {
      while (!request.next(true).empty()) {
      }
    });
    CHECK(lacks(message, {"expert 3 ", "layer 1 ", "layer_01.bin", "truncated or replaced"}) == "");
    write_experts(qpack);
  }
}

TEST_CASE("experts: a model without experts has a store of nothing") {
  ExpertStore store(fake_qpack(2, 0, 0), {}, 0);
  CHECK(store.resident_bytes() == 0);
  CHECK(store.slot_bytes() == 0);
  CHECK(error_of(ErrorKind::Input, [&] { store.request(0, Ids{}); }) == "layer 0 has no experts");
}

TEST_CASE("experts: the raw reads of the disk are measured") {
  const TempFolder folder;
  Qpack qpack = fake_qpack(2, 8);
  qpack.path = folder.path();
  CHECK(lacks(error_of(ErrorKind::Container, [&] { bench_io(qpack, IoMode::Auto, 2, 0.01); }), {"layer_00"}) == "");
  write_experts(qpack);
  const IoBench result = bench_io(qpack, IoMode::Buffered, 2, 0.02);
  CHECK(result.reads >= 2);
  CHECK(result.bytes == result.reads * kStride);
  CHECK(result.seconds >= 0.02);
  CHECK_FALSE(result.direct);
  CHECK(lacks(error_of(ErrorKind::Input, [&] { bench_io(qpack, IoMode::Auto, 0, 1); }), {"positive"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { bench_io(fake_qpack(2, 0, 0), IoMode::Auto, 1, 1); }), {"no experts"}) ==
        "");
}

// Layers that are followed without a wait ----------------------------------------------------------------------------

TEST_CASE("a layer is held when all of its experts are resident, and then nothing leaves the pool") {
  Bench bench(2, 4, 6);
  CHECK_FALSE(bench.store->hold(0));
  take(*bench.store, 0, {0, 1, 2}, false);
  CHECK_FALSE(bench.store->hold(0));
  take(*bench.store, 0, {3}, false);
  const auto held = bench.store->hold(0);
  REQUIRE(held);
  REQUIRE(held->slots.size() == 4);
  for (int e = 0; e < 4; ++e) CHECK(holds_blob(0, e, held->slots[size_t(e)], kStride));
  CHECK(bench.store->hold(0)->version == held->version);

  // A smaller budget waits until the layer is released.
  bench.store->set_budget(2 * kStride);
  CHECK(bench.store->resident_bytes() > 2 * kStride);
  for (int e = 0; e < 4; ++e) CHECK(holds_blob(0, e, held->slots[size_t(e)], kStride));
  const ExpertStats before = bench.store->stats();
  bench.store->used(0, Ids{1, 3}, 1);
  CHECK(bench.store->stats().hits == before.hits + 2);
  CHECK(bench.store->stats().misses == before.misses);
  bench.store->release_held();
  CHECK(bench.store->resident_bytes() <= 2 * kStride);
  CHECK_FALSE(bench.store->hold(0));
  // What was used while it was held counts: those two were the hottest.
  take(*bench.store, 0, {1, 3}, false);
  CHECK(bench.store->stats().misses == before.misses);
}

TEST_CASE("a layer's version changes with its slots") {
  Bench bench(1, 2, 2);
  take(*bench.store, 0, {0, 1}, false);
  const auto first = bench.store->hold(0);
  bench.store->release_held();
  bench.store->set_budget(kStride);
  bench.store->set_budget(2 * kStride);
  take(*bench.store, 0, {0, 1}, false);
  const auto second = bench.store->hold(0);
  REQUIRE(second);
  CHECK(second->version != first->version);
  for (int e = 0; e < 2; ++e) CHECK(holds_blob(0, e, second->slots[size_t(e)], kStride));
}

TEST_CASE("a layer's version changes when the memory that it lies in is cut, though its slots stay") {
  // A GPU has the rest of the memory at another address.
  Bench bench(2, 4, 8);
  for (int layer = 0; layer < 2; ++layer) take(*bench.store, layer, {0, 1, 2, 3}, false);
  take(*bench.store, 0, {0, 1, 2, 3}, false);  // the hot ones
  const auto first = bench.store->hold(0);
  REQUIRE(first);
  bench.store->release_held();
  bench.store->set_budget(6 * kStride);
  const auto second = bench.store->hold(0);
  REQUIRE(second);
  for (int e = 0; e < 4; ++e) CHECK(second->slots[size_t(e)] == first->slots[size_t(e)]);
  CHECK(second->version != first->version);
}

TEST_CASE("with a finish, what was handed out stays pinned until its slot is needed") {
  Bench bench(1, 8, 3, 1, 3);
  take(*bench.store, 0, {0, 1, 2}, false);
  auto request = std::make_optional(bench.store->request(0, Ids{0, 1, 2, 3, 4, 5}));
  int finished = 0;
  std::vector<ReadyExpert> in_use;
  const auto finish = [&] {
    ++finished;
    for (const ReadyExpert& r : in_use) CHECK(holds_blob(0, r.expert, r.slot, kStride));
    in_use.clear();
  };
  Ids taken;
  for (;;) {
    const std::vector<ReadyExpert> ready = request->next(false, finish);
    if (ready.empty()) break;
    in_use.insert(in_use.end(), ready.begin(), ready.end());
    for (const ReadyExpert& r : in_use) CHECK(holds_blob(0, r.expert, r.slot, kStride));
    for (const ReadyExpert& r : ready) taken.push_back(r.expert);
  }
  CHECK(sorted(taken) == range(0, 6));
  CHECK(finished >= 1);
  CHECK_FALSE(in_use.empty());
  // The last of them are pinned while the request lives: a smaller pool has to wait.
  bench.store->set_budget(3 * kStride);
  for (const ReadyExpert& r : in_use) CHECK(holds_blob(0, r.expert, r.slot, kStride));
  request.reset();
  CHECK(take(*bench.store, 0, {5}, false) == Ids{5});
}

TEST_CASE("with a finish and enough slots nothing is waited for") {
  Bench bench(1, 8, 8, 4);
  ExpertStore::Request request = bench.store->request(0, range(0, 8));
  Ids taken;
  for (;;) {
    const std::vector<ReadyExpert> ready = request.next(false, [] { FAIL("nobody needs a slot"); });
    if (ready.empty()) break;
    for (const ReadyExpert& r : ready) taken.push_back(r.expert);
  }
  CHECK(sorted(taken) == range(0, 8));
}

// Slots in the memory of a device -------------------------------------------------------------------------------------

// Asks for experts of a layer and checks the bytes of each in its slot of a FakeHeap.
static void check_on_device(ExpertStore& store, int layer, const Ids& ids, bool in_order) {
  ExpertStore::Request request = store.request(layer, ids);
  for (;;) {
    const std::vector<ReadyExpert> ready = request.next(in_order);
    if (ready.empty()) break;
    for (const ReadyExpert& r : ready) CHECK(holds_blob(layer, r.expert, FakeHeap::here(r.slot), kStride));
  }
}

TEST_CASE(
    "slots can lie in a device's memory: reads go by way of staging memory, and a cut gives whole segments back") {
  FakeDisk disk;
  FakeHeap heap;
  ExpertStoreOptions options;
  options.budget_bytes = 80 * kStride;
  options.io_threads = 2;
  options.read = disk.reader();
  options.heap = &heap;
  {
    ExpertStore store(fake_qpack(1, 80), options, 4);
    check_on_device(store, 0, range(0, 80), true);
    const uint64_t reads = store.stats().reads;
    CHECK(reads == 80);
    store.set_budget(40 * kStride);
    CHECK(store.resident_bytes() <= 40 * kStride);
    CHECK(store.resident_bytes() > 0);
    check_on_device(store, 0, range(0, 80), true);
    CHECK(store.stats().reads < reads + 80);  // some were kept
  }
  CHECK(heap.segments.empty());
}

TEST_CASE("host memory: experts that left the device come back from there, bit for bit, and nothing is read twice") {
  FakeDisk disk;
  FakeHeap heap;
  ExpertStoreOptions options;
  options.budget_bytes = 8 * kStride;
  options.io_threads = 2;
  options.read = disk.reader();
  options.heap = &heap;
  uint64_t slots = 0;
  SUBCASE("all of them") { slots = 40 + 4; }
  SUBCASE("as many as the device lacks") { slots = 32 + 4; }
  SUBCASE("few") { slots = 4; }
  options.host_bytes = slots * kStride;
  ExpertStore store(fake_qpack(2, 20), options, 4);
  CHECK(heap.staged == slots * kStride);
  const auto pass = [&] {
    for (int layer = 0; layer < 2; ++layer)
      for (int first = 0; first < 20; first += 4) check_on_device(store, layer, range(first, first + 4), false);
  };
  pass();
  CHECK(store.stats().reads == 40);
  CHECK(store.stats().host_hits == 0);
  pass();
  pass();
  const ExpertStats stats = store.stats();
  CHECK(stats.reads == disk.begun().size());
  CHECK(stats.bytes_read == stats.reads * kStride);
  CHECK(stats.host_bytes == stats.host_hits * kStride);
  CHECK(stats.hits + stats.reads + stats.host_hits == 120);
  if (slots > 4) CHECK(stats.reads == 40);
  if (slots == 4) CHECK(stats.reads > 40);
}

TEST_CASE("host memory: a read that fails leaves no copy") {
  FakeDisk disk;
  FakeHeap heap;
  ExpertStoreOptions options;
  options.budget_bytes = 4 * kStride;
  options.io_threads = 1;
  options.read = disk.reader();
  options.heap = &heap;
  options.host_bytes = 30 * kStride;
  ExpertStore store(fake_qpack(1, 20), options, 4);
  disk.set_broken(0, 1);
  {
    ExpertStore::Request request = store.request(0, Ids{1});
    CHECK_THROWS_AS(request.next(false), Error);
  }
  disk.set_broken(0, 1, false);
  ExpertStore::Request request = store.request(0, Ids{1});
  const std::vector<ReadyExpert> ready = request.next(false);
  REQUIRE(ready.size() == 1);
  CHECK(holds_blob(0, 1, FakeHeap::here(ready[0].slot), kStride));
  CHECK(store.stats().host_hits == 0);
}

TEST_CASE("host memory: less than reads in flight need is refused, and so is any without a device") {
  FakeHeap heap;
  ExpertStoreOptions options;
  options.budget_bytes = 4 * kStride;
  options.io_threads = 2;
  options.host_bytes = 4 * kStride;
  options.read = [](int, int, std::byte*, uint64_t) {};
  CHECK_THROWS_AS(ExpertStore(fake_qpack(1, 20), options, 4), Error);
  options.heap = &heap;
  CHECK_NOTHROW(ExpertStore(fake_qpack(1, 20), options, 4));
  options.host_bytes -= 1;
  CHECK_THROWS_AS(ExpertStore(fake_qpack(1, 20), options, 4), Error);
}
