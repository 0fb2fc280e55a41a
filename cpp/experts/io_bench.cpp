#include "experts/io_bench.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "experts/expert_files.h"
#include "experts/slot_memory.h"

namespace swiftlet {

IoBench bench_io(const Qpack& qpack, IoMode mode, int threads, double seconds) {
  if (threads < 1 || !(seconds > 0))
    fail(ErrorKind::Input, "cannot read with ", threads, " threads for ", seconds, " s: both must be positive");
  std::vector<int> layers;
  for (int layer = 0; layer < qpack.layer_count; ++layer)
    if (qpack.layouts[layer].stride > 0) layers.push_back(layer);
  if (layers.empty()) fail(ErrorKind::Input, qpack.path, " has no experts to read");

  using Clock = std::chrono::steady_clock;
  const ExpertFiles files(qpack, mode, 0);
  SlotMemory memory(qpack.max_stride, {}, {});
  std::atomic<uint64_t> reads = 0, bytes = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const unsigned seed = std::random_device{}();
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));

  const auto read_until_end = [&](unsigned thread, std::byte* slot) {
    try {
      std::mt19937 random(seed + thread);
      while (Clock::now() < end) {
        const int layer = layers[random() % layers.size()];
        files.read(layer, static_cast<int>(random() % static_cast<unsigned>(qpack.expert_count)), slot);
        ++reads;
        bytes += qpack.layouts[layer].stride;
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      if (!memory.has_free()) memory.grow(static_cast<uint64_t>(threads - i) * qpack.max_stride);
      workers.emplace_back(read_until_end, static_cast<unsigned>(i), memory.take());
    }
  }
  if (error) std::rethrow_exception(error);
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  return {reads, bytes, elapsed, files.direct()};
}

}  // namespace swiftlet
