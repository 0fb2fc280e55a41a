#include "experts/expert_files.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/error.h"
#include "base/memory.h"
#include "experts/slot_memory.h"

namespace swiftlet {

namespace {

constexpr double kProbeSeconds = 0.08;
constexpr int kProbeReads = 8;          // each way
constexpr double kClearlyFaster = 2.0;  // memory is several times faster than any disk: a smaller gain is no cache

double seconds_to_read(const File& file, uint64_t offset, std::byte* dst, size_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  file.read_at(offset, dst, bytes);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

uint64_t expert_bytes(const Qpack& qpack) {
  uint64_t bytes = 0;
  for (const ExpertLayout& layout : qpack.layouts) bytes += layout.stride * static_cast<uint64_t>(qpack.expert_count);
  return bytes;
}

// Each read is of another expert, and other ones in every process: a probe must not find what a probe has cached.
bool cache_is_faster(const Qpack& qpack) {
  std::vector<int> layers;
  for (int layer = 0; layer < qpack.layer_count; ++layer)
    if (qpack.layouts[layer].stride > 0) layers.push_back(layer);
  if (layers.empty()) return false;

  std::mt19937 random{std::random_device{}()};
  SlotMemory memory(qpack.max_stride, {}, {});
  memory.grow(qpack.max_stride);
  std::byte* slot = memory.take();
  std::vector<double> seconds[2];  // buffered, direct
  double total = 0;
  for (int i = 0; i < 2 * kProbeReads && (total < kProbeSeconds || i < 2); ++i) {
    const bool direct = i % 2 != 0;
    const int layer = layers[random() % layers.size()];
    const uint64_t stride = qpack.layouts[layer].stride;
    const uint64_t expert = random() % static_cast<uint64_t>(qpack.expert_count);
    const File file(qpack.layer_path(layer), direct);
    if (direct && !file.direct()) return false;  // all reads are buffered here anyway
    seconds[direct].push_back(seconds_to_read(file, expert * stride, slot, stride));
    total += seconds[direct].back();
  }
  return median(seconds[0]) * kClearlyFaster < median(seconds[1]);
}

bool wants_direct(const Qpack& qpack, IoMode mode, uint64_t pool_bytes) {
  if (mode != IoMode::Auto) return mode == IoMode::Direct;
  // Without room for the files the cache would turn over as the pool does, at a higher price.
  const uint64_t available = available_memory_bytes();
  const bool room = available > pool_bytes && available - pool_bytes > expert_bytes(qpack);
  return !room || !cache_is_faster(qpack);
}

}  // namespace

ExpertFiles::ExpertFiles(const Qpack& qpack, IoMode mode, uint64_t pool_bytes) {
  for (int layer = 0; layer < qpack.layer_count; ++layer) {
    const uint64_t stride = qpack.layouts[layer].stride;
    strides_.push_back(stride);
    files_.push_back(stride > 0 ? File(qpack.layer_path(layer)) : File());
    const File& file = files_.back();
    if (stride > 0 && file.size() / stride < static_cast<uint64_t>(qpack.expert_count)) {
      fail(ErrorKind::Container, file.path(), " has ", file.size(), " bytes, too few for ", qpack.expert_count,
           " experts of ", stride, " bytes: repack the checkpoint");
    }
  }
  if (!wants_direct(qpack, mode, pool_bytes)) return;
  direct_ = true;
  for (File& file : files_) {
    if (file.path().empty()) continue;
    file = File(file.path(), true);
    direct_ = direct_ && file.direct();
  }
}

void ExpertFiles::read(int layer, int expert, std::byte* dst) const {
  files_[layer].read_at(static_cast<uint64_t>(expert) * strides_[layer], dst, strides_[layer]);
}

}  // namespace swiftlet
