#include "gpu_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace software_metal {
namespace {

constexpr size_t kAlignment = 16;  // of the largest type that a kernel reads at once

size_t page() { return size_t(sysconf(_SC_PAGESIZE)); }
size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

void* must(void* mapped, const char* what) {
  if (mapped != MAP_FAILED) return mapped;
  std::perror(what);
  std::abort();
}

void* shared_pages(size_t bytes) {
  return must(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), "mmap");
}

// Whether all of the range is one shared mapping already.
bool is_shared(const void* base, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(base);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t from = 0, to = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, rights) != 3) continue;
    if (from <= begin && begin < to) return rights[3] == 's' && begin + bytes <= to;
  }
  return false;
}

}  // namespace

GpuMemory::GpuMemory(size_t bytes)
    : bytes_(bytes), span_(round_up(bytes, page())), lead_(span_ - round_up(bytes, kAlignment)) {
  own_ = shared_pages(span_);
  host_ = static_cast<std::byte*>(own_) + lead_;
  map_view(own_);
}

GpuMemory::GpuMemory(void* base, size_t bytes) : bytes_(bytes), span_(bytes), lead_(0), host_(base) {
  if (!is_shared(base, bytes)) {
    void* pages = shared_pages(span_);
    std::memcpy(pages, base, bytes_);
    must(mremap(pages, span_, span_, MREMAP_MAYMOVE | MREMAP_FIXED, base), "mremap");
  }
  map_view(base);
}

GpuMemory::~GpuMemory() {
  munmap(view_, span_ + page());
  if (own_) munmap(own_, span_);
}

void GpuMemory::map_view(void* pages) {
  void* room = must(mmap(nullptr, span_ + page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), "mmap");
  // An old size of zero asks for a second mapping of the same shared pages.
  view_ = static_cast<std::byte*>(must(mremap(pages, 0, span_, MREMAP_MAYMOVE | MREMAP_FIXED, room), "mremap"));
  gpu_ = view_ + lead_;
  close();
}

void GpuMemory::open() const { mprotect(view_, span_, PROT_READ | PROT_WRITE); }
void GpuMemory::close() const { mprotect(view_, span_, PROT_NONE); }

}  // namespace software_metal
