#include "base/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.h"

#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

namespace swiftlet {

PageMemory::PageMemory(size_t bytes, bool huge_pages) : bytes_(bytes) {
  if (bytes == 0) return;
  // Huge pages start at multiples of their size: take more, and give back what lies outside.
  constexpr size_t kHuge = size_t(2) << 20;
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  if (bytes > std::numeric_limits<size_t>::max() / 2) fail(ErrorKind::Memory, "cannot allocate ", bytes, " bytes");
  const size_t rounded = (bytes + page - 1) / page * page;
  const size_t slack = huge_pages ? kHuge : 0;
  void* mapped = mmap(nullptr, rounded + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    fail(ErrorKind::Memory, "the system refused ", bytes, " bytes of memory: ", std::strerror(errno));
  std::byte* begin = static_cast<std::byte*>(mapped);
  if (slack) {
    const size_t before = (kHuge - reinterpret_cast<uintptr_t>(begin) % kHuge) % kHuge;
    if (before) munmap(begin, before);
    if (slack > before) munmap(begin + before + rounded, slack - before);
    begin += before;
#ifdef MADV_HUGEPAGE
    madvise(begin, rounded, MADV_HUGEPAGE);
#endif
  }
  data_ = begin;
  bytes_ = rounded;
}

PageMemory::~PageMemory() {
  if (data_) munmap(data_, bytes_);
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void PageMemory::discard() {
  if (!data_) return;
  // Fresh pages in the place of the old ones: madvise means different things on different systems.
  if (mmap(data_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    fail(ErrorKind::Memory, "the system refused to take back ", bytes_, " bytes (", std::strerror(errno), ")");
}

#ifdef __APPLE__

uint64_t resident_set_bytes() {
  task_vm_info_data_t info;
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  if (task_info(mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&info), &count) != KERN_SUCCESS) return 0;
  return info.phys_footprint;
}

uint64_t peak_resident_set_bytes() {
  rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? uint64_t(usage.ru_maxrss) : 0;
}

uint64_t available_memory_bytes() {
  vm_statistics64_data_t stats;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&stats), &count) !=
      KERN_SUCCESS)
    return 0;
  return (uint64_t(stats.free_count) + stats.inactive_count + stats.purgeable_count) * uint64_t(vm_page_size);
}

#else

namespace {

// The number behind `key` in a file of "key value" lines such as /proc/meminfo.
std::optional<uint64_t> keyed_number(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    if (uint64_t value; rest >> value) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> first_number(const std::string& path) {
  std::ifstream file(path);
  if (uint64_t value; file >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

// What the memory cgroup of this process, or one above it, still leaves.
uint64_t cgroup_room() {
  uint64_t room = std::numeric_limits<uint64_t>::max();
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      const std::string folder = root + (path == "/" ? "" : path) + "/";
      const auto limit = first_number(folder + (v2 ? "memory.max" : "memory.limit_in_bytes"));
      const auto used = first_number(folder + (v2 ? "memory.current" : "memory.usage_in_bytes"));
      if (limit && used) {
        // Clean page cache counts as used, but makes way.
        const uint64_t cache =
            keyed_number(folder + "memory.stat", v2 ? "inactive_file " : "total_inactive_file ").value_or(0);
        room = std::min(room, *limit - std::min(*limit, *used - std::min(*used, cache)));
      }
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return room;
}

}  // namespace

uint64_t resident_set_bytes() { return keyed_number("/proc/self/status", "VmRSS:").value_or(0) * 1024; }

uint64_t peak_resident_set_bytes() { return keyed_number("/proc/self/status", "VmHWM:").value_or(0) * 1024; }

uint64_t available_memory_bytes() {
  const uint64_t system = keyed_number("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  return std::min(system, cgroup_room());
}

#endif

}  // namespace swiftlet
