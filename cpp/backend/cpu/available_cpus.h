// How many CPUs a process may use, as Linux tells it.
#pragma once

#include <string>

namespace swiftlet {

// CPU time a cgroup grants for each second, e.g. 2.5; infinite where there is no limit. `membership` is the text of
// /proc/self/cgroup, `mount` the folder where cgroups are mounted. Reads v2 (cpu.max) and v1 (cpu.cfs_quota_us); the
// limit of every parent holds too.
double cgroup_cpus(const std::string& membership, const std::string& mount);

}  // namespace swiftlet
