#include "experts/slot_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace swiftlet {

namespace {

constexpr size_t kAlignment = 16384;  // the largest page size that counts: Apple GPUs map whole pages

}  // namespace

SlotMemory::SlotMemory(size_t slot_bytes, std::function<void(const std::byte*, size_t)> added,
                       std::function<void(const std::byte*)> removed)
    : slot_bytes_(slot_bytes), added_(std::move(added)), removed_(std::move(removed)) {}

std::byte* SlotMemory::map() {
  // Pages can be smaller than the alignment: map more and cut off both ends.
  const size_t bytes = slot_bytes_ + kAlignment;
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    fail(ErrorKind::Memory, "the system refused ", slot_bytes_, " bytes for an expert (", std::strerror(errno),
         "): use a smaller memory ceiling");
  }
  const auto begin = reinterpret_cast<uintptr_t>(mapping);
  const uintptr_t aligned = (begin + kAlignment - 1) / kAlignment * kAlignment;
  if (aligned > begin) munmap(mapping, aligned - begin);
  if (const size_t rest = begin + kAlignment - aligned) munmap(reinterpret_cast<void*>(aligned + slot_bytes_), rest);

  auto* slot = reinterpret_cast<std::byte*>(aligned);
  if (added_) {
    try {
      added_(slot, slot_bytes_);
    } catch (...) {
      munmap(slot, slot_bytes_);
      throw;
    }
  }
  mapped_bytes_ += slot_bytes_;
  return slot;
}

void SlotMemory::unmap(std::byte* slot) {
  if (removed_) removed_(slot);
  munmap(slot, slot_bytes_);
  mapped_bytes_ -= slot_bytes_;
}

}  // namespace swiftlet
