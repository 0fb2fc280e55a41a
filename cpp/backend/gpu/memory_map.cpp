#include "backend/gpu/memory_map.h"

#include "base/error.h"

namespace swiftlet::gpu {

void MemoryMap::add(const std::byte* base, std::shared_ptr<const Memory> memory) {
  const std::lock_guard lock(mutex_);
  by_base_[base] = std::move(memory);
}

void MemoryMap::remove(const std::byte* base) {
  const std::lock_guard lock(mutex_);
  by_base_.erase(base);
}

MemoryMap::Place MemoryMap::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto* wanted = static_cast<const std::byte*>(address);
  auto it = by_base_.upper_bound(wanted);
  if (it != by_base_.begin()) {
    --it;
    const auto offset = static_cast<uint64_t>(wanted - it->first);
    if (offset < it->second->bytes()) return {it->second, offset};
  }
  fail(ErrorKind::Input, "the GPU was given memory that was not announced to it");
}

}  // namespace swiftlet::gpu
