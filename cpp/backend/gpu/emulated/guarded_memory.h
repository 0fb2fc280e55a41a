// Memory between two unreadable pages, which ends at the second: what reads or writes past its end faults.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swiftlet::gpu::emulated {

class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes);  // zeroed; throws ErrorKind::Memory
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // The address is in one of its unreadable pages, or between them.
  bool near(uintptr_t address) const;
  // Nothing was written to the bytes between the data and the pages: data is aligned to 16 bytes, so there can be some.
  bool slack_intact() const;

 private:
  std::byte* pages_;  // all of them
  size_t page_bytes_;
  std::byte* data_;
  size_t bytes_;
};

}  // namespace swiftlet::gpu::emulated
