#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/available_cpus.h"
#include "backend/cpu/thread_pool.h"
#include "base/error.h"

using namespace swiftlet;

TEST_CASE("parallel_for covers every index once, in pieces that are multiples of the grain") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const int64_t count : {0, 1, 7, 64, 1000}) {
      for (const int64_t grain : {1, 3, 16, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
        std::atomic<int> uneven{0};
        pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          if (begin % grain != 0 || begin >= end || (end % grain != 0 && end != count)) ++uneven;
          for (int64_t i = begin; i < end; ++i) ++visits[size_t(i)];
        });
        CHECK(uneven == 0);
        CHECK(std::all_of(visits.begin(), visits.end(), [](const auto& n) { return n == 1; }));
      }
    }
  }
}

TEST_CASE("many short loops one after the other, with pauses that let the workers fall asleep") {
  ThreadPool pool(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> out(8);  // written without synchronisation: the loop's end must publish it
    pool.parallel_for(8, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[size_t(i)] = round + int(i);
    });
    for (int i = 0; i < 8; ++i) REQUIRE(out[size_t(i)] == round + i);
    if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_CASE("more than one thread takes part, and a slow piece does not hold up the others") {
  ThreadPool pool(2);
  std::mutex mutex;
  std::vector<std::thread::id> ids;
  std::atomic<int64_t> others{0};
  pool.parallel_for(64, 1, [&](int64_t begin, int64_t end) {
    {
      const std::lock_guard lock(mutex);
      ids.push_back(std::this_thread::get_id());
    }
    if (begin != 0) {
      others += end - begin;
      return;
    }
    CHECK(end <= 8);
    // The thread with the first piece waits until the other one has done all the rest.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (others < 64 - end && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    CHECK(others == 64 - end);
  });
  CHECK(ids.size() >= 4);
  CHECK(std::any_of(ids.begin(), ids.end(), [&](auto id) { return id != ids[0]; }));
}

TEST_CASE("an exception of the body reaches the caller, and the pool works on") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int64_t bad : {0, 17, 99}) {
      const auto run = [&] {
        pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) {
          if (begin <= bad && bad < end) throw std::runtime_error("piece " + std::to_string(bad));
        });
      };
      CHECK_THROWS_WITH_AS(run(), ("piece " + std::to_string(bad)).c_str(), std::runtime_error);
    }
    std::atomic<int64_t> sum{0};
    pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    CHECK(sum == 4950);
  }
}

TEST_CASE("a loop inside a loop runs on the thread that starts it") {
  ThreadPool pool(3);
  std::atomic<int> total{0}, strangers{0};
  pool.parallel_for(16, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto self = std::this_thread::get_id();
      pool.parallel_for(10, 1, [&](int64_t b, int64_t e) {
        total += int(e - b);
        strangers += std::this_thread::get_id() != self;
      });
    }
  });
  CHECK(total == 160);
  CHECK(strangers == 0);
}

TEST_CASE("callers on several threads take turns") {
  ThreadPool pool(3);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) pool.parallel_for(50, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(total == 4 * 100 * 50);
}

TEST_CASE("a pool of no threads is refused") {
  CHECK_THROWS_WITH_AS(ThreadPool(0), "a thread pool needs at least 1 thread, not 0", Error);
}

TEST_CASE("CPU quotas of cgroups") {
  namespace fs = std::filesystem;
  const fs::path mount = fs::temp_directory_path() / ("swiftlet-cgroup-" + std::to_string(std::rand()));
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories((mount / file).parent_path());
    std::ofstream(mount / file) << text;
  };
  const auto limit = [&](const std::string& membership) { return cgroup_cpus(membership, mount.string()); };

  CHECK(std::isinf(limit("")));
  CHECK(std::isinf(limit("0::/a/b\n")));  // no such folders

  write("a/cpu.max", "150000 100000\n");
  write("a/b/cpu.max", "max 100000\n");
  CHECK(limit("0::/a/b\n") == 1.5);  // the parent's limit holds
  CHECK(limit("0::/a\n") == 1.5);
  write("a/b/cpu.max", "50000 100000\n");
  CHECK(limit("0::/a/b\n") == 0.5);
  CHECK(std::isinf(limit("0::/other\n")));

  write("cpu/job/cpu.cfs_quota_us", "300000\n");
  write("cpu/job/cpu.cfs_period_us", "100000\n");
  CHECK(limit("5:memory:/job\n3:cpu,cpuacct:/job\n") == 3);
  CHECK(std::isinf(limit("5:cpuset:/job\n")));
  write("cpu/job/cpu.cfs_quota_us", "-1\n");
  CHECK(std::isinf(limit("3:cpu:/job\n")));
  write("cpu,cpuacct/cpu.cfs_quota_us", "200000\n");  // a container sees its own group at the mount
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(limit("3:cpu,cpuacct:/docker/0123\n") == 2);

  write("a/cpu.max", "junk");
  CHECK(limit("0::/a\nnonsense\n:\n") == std::numeric_limits<double>::infinity());
  fs::remove_all(mount);

  CHECK(available_cpus() >= 1);
  CHECK(available_cpus() <= int(std::max(1u, std::thread::hardware_concurrency())));
}
