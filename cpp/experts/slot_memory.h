// Memory of the pool's slots: taken from the system one slot at a time, and given back to it at once.
//
// One mapping a slot is exact where larger segments are not: a budget is used to the last slot, and shrinking gives up
// precisely the coldest experts. (Huge pages were measured and do not read faster.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace swiftlet {

class SlotMemory {
 public:
  // `added` is called after a slot was mapped, `removed` before it is unmapped; both may be empty.
  SlotMemory(size_t slot_bytes, std::function<void(const std::byte*, size_t)> added,
             std::function<void(const std::byte*)> removed);

  // A new slot, aligned to 16,384 bytes. Throws ErrorKind::Memory if the system refuses.
  std::byte* map();
  void unmap(std::byte* slot);

  size_t slot_bytes() const { return slot_bytes_; }
  uint64_t mapped_bytes() const { return mapped_bytes_; }

 private:
  size_t slot_bytes_;
  uint64_t mapped_bytes_ = 0;
  std::function<void(const std::byte*, size_t)> added_;
  std::function<void(const std::byte*)> removed_;
};

}  // namespace swiftlet
