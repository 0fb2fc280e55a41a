// Memory of the pool's slots: segments of slots side by side, taken from the system when they are needed and given back
// to it at once.
//
// Segments are made of huge pages where the system has them, since a read into scattered small pages is cut into many
// small transfers: with 4 KiB pages direct reads were measured at about half the speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/slot_heap.h"

namespace swiftlet {

class SlotMemory {
 public:
  struct Segment {
    std::byte* base;  // aligned to 2 MiB
    size_t slots;
  };

  // `added` is called after a segment was mapped, `removed` before it is unmapped; a segment that is cut goes and comes
  // back smaller. Both may be empty. With a heap, segments come from there, and cannot be cut in pieces.
  SlotMemory(size_t slot_bytes, std::function<void(const std::byte*, size_t)> added,
             std::function<void(const std::byte*)> removed, SlotHeap* heap = nullptr);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  size_t slot_bytes() const { return slot_bytes_; }
  bool divisible() const { return !heap_; }
  uint64_t mapped_bytes() const { return mapped_bytes_; }
  const std::vector<Segment>& segments() const { return segments_; }

  // Maps another segment, of `room` bytes at most (one slot at least). Throws ErrorKind::Memory if the system refuses.
  void grow(uint64_t room);

  bool has_free() const { return !free_.empty(); }
  std::byte* take();  // a free slot, or null
  void give(std::byte* slot) { free_.push_back(slot); }

  // From now on take() gives no slot of the segment beyond the first `keep`.
  void withdraw(const Segment& segment, size_t keep);
  // Gives all but the first `keep` slots of the segment back to the system. They are withdrawn and not in use. `keep`
  // is 0 where segments are not divisible.
  void cut(const Segment& segment, size_t keep);

 private:
  size_t slot_bytes_;
  uint64_t mapped_bytes_ = 0;
  std::function<void(const std::byte*, size_t)> added_;
  std::function<void(const std::byte*)> removed_;
  SlotHeap* heap_;
  std::vector<Segment> segments_;
  std::vector<std::byte*> free_;
};

}  // namespace swiftlet
