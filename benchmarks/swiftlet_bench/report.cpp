#include "report.h"

#include <sys/utsname.h>

#include <ctime>

#include "backend/cpu/thread_pool.h"
#include "base/error.h"
#include "base/memory.h"
#include "git_version.h"

#ifdef __APPLE__
#include <sys/sysctl.h>
#else
#include <unistd.h>
#endif

namespace swiftlet::bench {
namespace {

std::string cpu_model() {
#ifdef __APPLE__
  char name[256] = {};
  size_t size = sizeof(name) - 1;
  return sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 ? name : "unknown";
#else
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
#endif
}

uint64_t memory_bytes() {
#ifdef __APPLE__
  uint64_t bytes = 0;
  size_t size = sizeof(bytes);
  sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0);
  return bytes;
#else
  return uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
#endif
}

Json machine() {
  utsname system;
  uname(&system);
  return {{"cpu", cpu_model()},
          {"cores", available_cpus()},
          {"memory_bytes", memory_bytes()},
          {"kernel", std::string(system.sysname) + " " + system.release + " " + system.machine}};
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

}  // namespace

Report::Report(const std::string& file, Json common) : file_(file), common_(std::move(common)) {
  common_["machine"] = machine();
  common_["version"] = SWIFTLET_GIT_VERSION;
  if (file.empty()) return;
  out_.open(file);
  if (!out_) fail(ErrorKind::Input, "cannot write to ", file, ": is there such a folder, and may you write there?");
}

void Report::add(const Json& measurement) {
  if (file_.empty()) return;
  Json all = common_;
  all["date"] = date();
  all.update(measurement);
  if (!(out_ << all.dump() << std::endl)) fail(ErrorKind::Io, "writing to ", file_, " failed: is the disk full?");
}

}  // namespace swiftlet::bench
