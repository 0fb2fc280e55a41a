// A container of experts without weights, and a disk that does what a test says.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "container/qpack.h"
#include "experts/expert_store.h"

namespace swiftlet {

constexpr uint64_t kStride = 16384;

inline Qpack fake_qpack(int layers, int experts, uint64_t stride = kStride) {
  Qpack qpack;
  qpack.path = "/nowhere";
  qpack.layer_count = layers;
  qpack.expert_count = experts;
  qpack.layouts.resize(layers);
  for (ExpertLayout& layout : qpack.layouts) layout.stride = stride;
  qpack.max_stride = stride;
  return qpack;
}

// Every word of a blob says whose it is and where it lies.
inline uint64_t word_of(int layer, int expert, uint64_t index) {
  return uint64_t(layer) << 48 | uint64_t(expert) << 32 | index;
}

inline void fill_blob(int layer, int expert, std::byte* blob, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes / 8; ++i) {
    const uint64_t word = word_of(layer, expert, i);
    std::memcpy(blob + 8 * i, &word, 8);
  }
}

inline bool holds_blob(int layer, int expert, const std::byte* blob, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes / 8; ++i) {
    const uint64_t word = word_of(layer, expert, i);
    if (std::memcmp(blob + 8 * i, &word, 8) != 0) return false;
  }
  return true;
}

class FakeDisk {
 public:
  using Key = std::pair<int, int>;  // layer, expert

  std::function<void(int, int, std::byte*, uint64_t)> reader() {
    return [this](int layer, int expert, std::byte* slot, uint64_t bytes) { read(layer, expert, slot, bytes); };
  }

  // From now on a read blocks until it is let through.
  void hold() {
    const std::lock_guard lock(mutex_);
    holding_ = true;
  }
  void let(int layer, int expert) {
    const std::lock_guard lock(mutex_);
    allowed_.insert({layer, expert});
    changed_.notify_all();
  }
  void let_all() {
    const std::lock_guard lock(mutex_);
    holding_ = false;
    changed_.notify_all();
  }

  // From now on reads of this expert fail (or succeed again).
  void set_broken(int layer, int expert, bool broken = true) {
    const std::lock_guard lock(mutex_);
    if (broken)
      broken_.insert({layer, expert});
    else
      broken_.erase({layer, expert});
  }

  // The reads begun so far, in order.
  std::vector<Key> begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  size_t most_at_once() const {
    const std::lock_guard lock(mutex_);
    return most_at_once_;
  }
  void wait_until_begun(size_t reads) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_.size() >= reads; });
  }
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return at_once_ == 0; });
  }

 private:
  void read(int layer, int expert, std::byte* slot, uint64_t bytes) {
    const Key key{layer, expert};
    std::unique_lock lock(mutex_);
    begun_.push_back(key);
    most_at_once_ = std::max(most_at_once_, ++at_once_);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !holding_ || allowed_.contains(key); });
    const bool broken = broken_.contains(key);
    lock.unlock();
    if (!broken) fill_blob(layer, expert, slot, bytes);
    lock.lock();
    --at_once_;
    changed_.notify_all();
    if (broken) throw std::runtime_error("bad sector");
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool holding_ = false;
  std::set<Key> allowed_, broken_;
  std::vector<Key> begun_;
  size_t at_once_ = 0, most_at_once_ = 0;
};

// A device's memory, as far from this process's as an offset can make it.
class FakeHeap final : public SlotHeap {
 public:
  static constexpr uintptr_t kAway = uintptr_t(1) << 60;
  static const std::byte* here(const std::byte* there) {
    return reinterpret_cast<const std::byte*>(reinterpret_cast<uintptr_t>(there) - kAway);
  }
  std::byte* map(size_t bytes) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte>& memory = segments.emplace_back(bytes);
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(memory.data()) + kAway);
  }
  void unmap(std::byte* base) override {
    const std::lock_guard lock(mutex_);
    std::erase_if(segments, [&](const auto& memory) { return memory.data() == here(base); });
  }
  std::shared_ptr<std::byte> staging(size_t bytes) override {
    staged += bytes;
    return {static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)), std::free};
  }
  void upload(std::byte* to, const std::byte* from, size_t bytes) override {
    std::memcpy(const_cast<std::byte*>(here(to)), from, bytes);
  }
  void download(std::byte* to, const std::byte* from, size_t bytes) override { std::memcpy(to, here(from), bytes); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    std::memcpy(const_cast<std::byte*>(here(to)), here(from), bytes);
    ++copies;
  }
  std::list<std::vector<std::byte>> segments;
  int copies = 0;
  size_t staged = 0;

 private:
  std::mutex mutex_;
};

// The system's side of the pool: which slots are mapped, and the most bytes there ever were.
class MemoryWatch {
 public:
  void attach(ExpertStoreOptions& options) {
    options.on_memory_added = [this](const std::byte* base, size_t bytes) {
      const std::lock_guard lock(mutex_);
      slots_[base] = bytes;
      bytes_ += bytes;
      most_ = std::max(most_, bytes_);
    };
    options.on_memory_removed = [this](const std::byte* base) {
      const std::lock_guard lock(mutex_);
      bytes_ -= slots_.at(base);
      slots_.erase(base);
    };
  }
  uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  uint64_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, size_t> slots_;
  uint64_t bytes_ = 0, most_ = 0;
};

}  // namespace swiftlet
