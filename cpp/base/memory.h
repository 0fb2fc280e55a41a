// Page-aligned anonymous memory, zeroed, committed as it is touched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swiftlet {

class PageMemory {
 public:
  PageMemory() = default;
  // Throws ErrorKind::Memory when the system refuses. `huge_pages` asks for 2 MiB pages: for memory that is used in
  // full.
  explicit PageMemory(size_t bytes, bool huge_pages = false);
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;

  // Gives the contents back to the system; the addresses stay taken, and read as zeros.
  void discard();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Resident set of this process, and the highest it has been, in bytes. 0 where the system does not say.
uint64_t resident_set_bytes();
uint64_t peak_resident_set_bytes();

// Memory that this process can still take without swapping: what the system calls available, and no more than a cgroup
// limit leaves.
uint64_t available_memory_bytes();

}  // namespace swiftlet
