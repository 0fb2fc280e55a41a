#include <metal_stdlib>
using namespace metal;
#include "kernel_args.h"

// to = from, 16 bytes a thread: what benchmarks compare with.
// Grid: threadgroups of `quads` threads in all.
kernel void copy(const device uint4* from [[buffer(0)]],
                 device uint4* to [[buffer(1)]],
                 constant CopyArgs& a [[buffer(2)]],
                 uint tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]],
                 uint threads [[threads_per_threadgroup]]) {
  const ulong i = ulong(tg) * threads + tid;
  if (i < a.quads) {
    to[i] = from[i];
  }
}
