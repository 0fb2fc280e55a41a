#include "experts/slot_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace swiftlet {

namespace {

// A slot need not be a multiple of a huge page. This many are, if a slot is a multiple of 64 KiB.
constexpr uint64_t kSegmentSlots = 32;
constexpr size_t kHugePage = size_t(2) << 20;

std::byte* map_segment(size_t bytes) {
  // Huge pages lie at multiples of their size: map more, and cut off both ends.
  void* mapping = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    fail(ErrorKind::Memory, "the system refused ", bytes, " bytes for experts (", std::strerror(errno),
         "): use a smaller memory ceiling");
  }
  auto* begin = static_cast<std::byte*>(mapping);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) munmap(begin, before);
  if (before < kHugePage) munmap(begin + before + bytes, kHugePage - before);
#ifdef MADV_HUGEPAGE
  madvise(begin + before, bytes, MADV_HUGEPAGE);
#endif
  return begin + before;
}

}  // namespace

SlotMemory::SlotMemory(size_t slot_bytes, std::function<void(const std::byte*, size_t)> added,
                       std::function<void(const std::byte*)> removed, SlotHeap* heap)
    : slot_bytes_(slot_bytes), added_(std::move(added)), removed_(std::move(removed)), heap_(heap) {}

SlotMemory::~SlotMemory() {
  while (!segments_.empty()) cut(segments_.back(), 0);
}

void SlotMemory::grow(uint64_t room) {
  const size_t slots = std::clamp<uint64_t>(room / slot_bytes_, 1, kSegmentSlots);
  const size_t bytes = slots * slot_bytes_;
  std::byte* base = heap_ ? heap_->map(bytes) : map_segment(bytes);
  if (added_ && !heap_) {
    try {
      added_(base, bytes);
    } catch (...) {
      munmap(base, bytes);
      throw;
    }
  }
  segments_.push_back({base, slots});
  mapped_bytes_ += bytes;
  for (size_t i = slots; i-- > 0;) free_.push_back(base + i * slot_bytes_);
}

std::byte* SlotMemory::take() {
  if (free_.empty()) return nullptr;
  std::byte* slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotMemory::withdraw(const Segment& segment, size_t keep) {
  const std::byte* begin = segment.base + keep * slot_bytes_;
  const std::byte* end = segment.base + segment.slots * slot_bytes_;
  std::erase_if(free_, [&](const std::byte* slot) { return slot >= begin && slot < end; });
}

void SlotMemory::cut(const Segment& segment, size_t keep) {
  const auto [base, slots] = segment;
  if (heap_) {
    heap_->unmap(base);
  } else {
    if (removed_) removed_(base);
    munmap(base + keep * slot_bytes_, (slots - keep) * slot_bytes_);
  }
  mapped_bytes_ -= (slots - keep) * slot_bytes_;
  const auto at = std::ranges::find(segments_, base, &Segment::base);
  if (keep > 0) {
    at->slots = keep;
    if (added_) added_(base, keep * slot_bytes_);
  } else {
    segments_.erase(at);
  }
}

}  // namespace swiftlet
