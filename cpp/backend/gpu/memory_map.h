// Where the GPU finds what the rest of the engine knows by its address in this process.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "backend/gpu/device.h"

namespace swiftlet::gpu {

// From any thread.
class MemoryMap {
 public:
  void add(const std::byte* base, std::shared_ptr<const Memory> memory);
  void remove(const std::byte* base);

  // The place that holds `address`. Throws ErrorKind::Input if nothing that was added does.
  struct Place {
    std::shared_ptr<const Memory> memory;
    uint64_t offset;
  };
  Place find(const void* address) const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<const Memory>> by_base_;
};

}  // namespace swiftlet::gpu
