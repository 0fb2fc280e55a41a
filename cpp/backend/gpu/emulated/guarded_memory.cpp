#include "backend/gpu/emulated/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace swiftlet::gpu::emulated {
namespace {

constexpr auto kSlack = std::byte{0xff};  // floats made of it are NaN

size_t page() {
  static const size_t bytes = size_t(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes)
    : page_bytes_(round_up(std::max<size_t>(bytes, 1), page()) + 2 * page()), bytes_(bytes) {
  void* p = mmap(nullptr, page_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail(ErrorKind::Memory, "no memory for a buffer of ", bytes, " bytes");
  pages_ = static_cast<std::byte*>(p);
  std::byte* end = pages_ + page_bytes_ - page();
  mprotect(pages_ + page(), page_bytes_ - 2 * page(), PROT_READ | PROT_WRITE);
  data_ = end - round_up(bytes, 16);
  std::fill(pages_ + page(), data_, kSlack);
  std::fill(data_ + bytes, end, kSlack);
}

GuardedMemory::~GuardedMemory() { munmap(pages_, page_bytes_); }

bool GuardedMemory::near(uintptr_t address) const {
  const uintptr_t first = reinterpret_cast<uintptr_t>(pages_);
  return address >= first && address < first + page_bytes_;
}

bool GuardedMemory::slack_intact() const {
  const auto intact = [](std::byte b) { return b == kSlack; };
  return std::all_of(pages_ + page(), data_, intact) &&
         std::all_of(data_ + bytes_, pages_ + page_bytes_ - page(), intact);
}

}  // namespace swiftlet::gpu::emulated
