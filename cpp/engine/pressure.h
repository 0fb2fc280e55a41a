// Watches the system's memory pressure on a thread of its own.
#pragma once

#include <functional>
#include <memory>

namespace swiftlet {

// Linux: a PSI trigger, or where there is none what the system and the cgroup still have, twice a second. macOS: the
// dispatch memory-pressure source.
class PressureWatch {
 public:
  // `on_pressure` is called on the watch's thread when memory is short, at most once a second while it stays so.
  explicit PressureWatch(std::function<void()> on_pressure);
  ~PressureWatch();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace swiftlet
