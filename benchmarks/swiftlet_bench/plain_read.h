// What memory gives to a plain read: the yardstick of everything that reads weights.
#pragma once

#include <cstdint>

#include "backend/cpu/thread_pool.h"
#include "base/memory.h"

namespace swiftlet::bench {

class PlainRead {
 public:
  // Takes a buffer larger than any last-level cache, in huge pages as weights are, and tries how many places a thread
  // had better read at once.
  explicit PlainRead(ThreadPool& pool);

  // Reads about `bytes` with all threads of the pool, from the buffer, round and round; returns how many those were.
  uint64_t read(uint64_t bytes);
  int streams() const { return streams_; }

 private:
  ThreadPool& pool_;
  PageMemory buffer_;
  uint64_t at_ = 0;  // where the next read goes on
  int streams_ = 1;
};

}  // namespace swiftlet::bench
