// Memory that CPU and GPU see at different addresses, so that the GPU's view can be closed: a kernel that reaches for
// a buffer it was not given then faults, and so does one that runs past the end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace software_metal {

class GpuMemory {
 public:
  // New memory, zeroed.
  explicit GpuMemory(size_t bytes);
  // The pages at `base`, which stay the caller's. They are replaced once by pages that can be seen twice, with the same
  // contents; nobody may write to them at that moment.
  GpuMemory(void* base, size_t bytes);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;

  void* host() const { return host_; }
  std::byte* gpu() const { return gpu_; }
  void open() const;
  void close() const;

 private:
  void map_view(void* pages);

  size_t bytes_;
  size_t span_;          // bytes_ in whole pages
  size_t lead_;          // unused bytes before the memory: it ends where its last page does
  void* own_ = nullptr;  // pages to unmap at the end
  void* host_;
  std::byte* view_ = nullptr;  // where the GPU's pages are; a page that nobody may touch follows
  std::byte* gpu_ = nullptr;
};

}  // namespace software_metal
