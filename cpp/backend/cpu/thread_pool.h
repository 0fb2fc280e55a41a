// The compute threads: a loop split into pieces, no spinning when idle.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace swiftlet {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the calling thread is one of them
  ~ThreadPool();
  int threads() const;

  // Calls body(begin, end) on pieces of [0, count), each a multiple of `grain` long but for the last, on all threads;
  // returns when all are done. Pieces are handed out as threads come free, so a thread that the system takes away does
  // not hold up the rest. Which thread does which piece must not matter to the result. An exception of the body is
  // rethrown here.
  void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// CPUs this process may use: affinity mask and cgroup CPU quota (v1 and v2), at least 1.
int available_cpus();

}  // namespace swiftlet
