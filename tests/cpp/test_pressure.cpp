#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "engine/pressure.h"

using namespace swiftlet;

TEST_CASE("pressure watch: its thread starts, calls on its own time, and stops at once") {
  std::atomic<int> calls{0};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; i++) {
    PressureWatch watch([&] { calls++; });
    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // Twenty lives shorter than one look at the system: none of them waited for it.
  CHECK(calls == 0);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}
