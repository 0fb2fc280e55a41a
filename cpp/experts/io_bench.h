// Raw reads of experts, without a pool and without compute: what the disk can give the store.
#pragma once

#include <cstdint>

#include "container/qpack.h"
#include "experts/expert_store.h"

namespace swiftlet {

struct IoBench {
  uint64_t reads = 0;
  uint64_t bytes = 0;
  double seconds = 0;
  bool direct = false;  // how it was read, with IoMode::Auto too
};

// Each of `threads` threads reads experts chosen at random from all layers, one after the other, for `seconds`.
// Throws ErrorKind::Input for nonsense, Container and Io as ExpertStore does.
IoBench bench_io(const Qpack& qpack, IoMode mode, int threads, double seconds);

}  // namespace swiftlet
