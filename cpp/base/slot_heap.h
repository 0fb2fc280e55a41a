// Memory for the pool's slots where the CPU cannot write into it: that of a graphics card.
#pragma once

#include <cstddef>
#include <memory>

namespace swiftlet {

// All methods from any thread. Addresses are the device's: nothing on the CPU follows them.
class SlotHeap {
 public:
  virtual ~SlotHeap() = default;
  virtual std::byte* map(size_t bytes) = 0;  // throws ErrorKind::Memory
  virtual void unmap(std::byte* base) = 0;   // what map() returned; nothing that is queued uses it
  // Host memory that upload() and download() are fast with, aligned to pages. Throws ErrorKind::Memory.
  virtual std::shared_ptr<std::byte> staging(size_t bytes) = 0;
  // Return when it is done; nothing that is queued writes to `from` or uses `to`. Throw ErrorKind::Numeric if the
  // device failed.
  virtual void upload(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void download(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
};

}  // namespace swiftlet
