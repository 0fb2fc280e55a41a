#include "backend/cpu/available_cpus.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "backend/cpu/thread_pool.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace swiftlet {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// cpu.max: "QUOTA PERIOD" in microseconds, or "max PERIOD".
double read_v2(const std::filesystem::path& folder) {
  double quota = 0, period = 0;
  std::ifstream file(folder / "cpu.max");
  return file >> quota >> period && quota > 0 && period > 0 ? quota / period : kUnlimited;
}

// cpu.cfs_quota_us: microseconds, or -1.
double read_v1(const std::filesystem::path& folder) {
  double quota = 0, period = 0;
  std::ifstream quota_file(folder / "cpu.cfs_quota_us"), period_file(folder / "cpu.cfs_period_us");
  return quota_file >> quota && period_file >> period && quota > 0 && period > 0 ? quota / period : kUnlimited;
}

// The least limit of a group and its parents. Inside a container the path may be one of the host: folders that are not
// here are passed over, and the mount itself is then the container's group.
template <class Read>
double least_limit(const std::filesystem::path& mount, std::filesystem::path group, Read read) {
  double limit = read(mount);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path())
    limit = std::min(limit, read(mount / group));
  return limit;
}

bool has_cpu_controller(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');)
    if (name == "cpu") return true;
  return false;
}

int scheduled_cpus() {
#if defined(__linux__)
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {  // the call fails while the mask is too small
    cpu_set_t* mask = CPU_ALLOC(capacity);
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    const int count = mask && sched_getaffinity(0, bytes, mask) == 0 ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (count > 0) return count;
  }
#endif
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

double cgroup_cpus(const std::string& membership, const std::string& mount) {
  double limit = kUnlimited;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // ID:CONTROLLERS:PATH, in v2 with id 0 and no controllers
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty())
      limit = std::min(limit, least_limit(mount, group, read_v2));
    else if (has_cpu_controller(controllers))
      for (const std::string& folder : {std::string("cpu"), controllers})
        limit = std::min(limit, least_limit(std::filesystem::path(mount) / folder, group, read_v1));
  }
  return limit;
}

int available_cpus() {
  std::ifstream file("/proc/self/cgroup");  // absent outside Linux: no limit
  const std::string membership(std::istreambuf_iterator<char>(file), {});
  const double quota = std::ceil(cgroup_cpus(membership, "/sys/fs/cgroup"));
  return int(std::clamp(quota, 1.0, double(scheduled_cpus())));
}

}  // namespace swiftlet
