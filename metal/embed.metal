#include <metal_stdlib>
using namespace metal;
#include "quantized.h"

// x[t, i] = row t of a gathered piece of the embedding table.
// Grid: (threadgroups of columns, T).
kernel void embed(const device uchar* rows [[buffer(0)]],
                  device float* x [[buffer(1)]],  // [T, columns]
                  constant EmbedArgs& a [[buffer(2)]],
                  uint3 tg [[threadgroup_position_in_grid]],
                  uint tid [[thread_index_in_threadgroup]],
                  uint3 threads [[threads_per_threadgroup]]) {
  const uint i = tg.x * threads.x + tid;
  if (i < a.columns) {
    x[ulong(tg.y) * a.columns + i] = weight_at(matrix_row(rows, a.place, tg.y, a.columns), i, a.columns);
  }
}
