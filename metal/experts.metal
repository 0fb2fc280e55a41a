#include <metal_stdlib>
using namespace metal;
#include "activations.h"
#include "kernel_args.h"

// The steps of a long chunk's MLPs between the matrix products.

// out[row] = silu(x[row, 0]) * x[row, 1]
// Grid: (threadgroups of columns, rows).
kernel void silu_mul(const device float* x [[buffer(0)]],  // [rows, 2, columns]
                     device float* out [[buffer(1)]],      // [rows, columns]
                     constant SiluMulArgs& a [[buffer(2)]],
                     uint3 tg [[threadgroup_position_in_grid]],
                     uint tid [[thread_index_in_threadgroup]],
                     uint3 threads [[threads_per_threadgroup]]) {
  const uint i = tg.x * threads.x + tid;
  if (i < a.columns) {
    const device float* row = x + ulong(tg.y) * 2 * a.columns;
    out[ulong(tg.y) * a.columns + i] = silu(row[i]) * row[a.columns + i];
  }
}

// y[t] *= sigmoid(gate[t])
// Grid: (threadgroups of columns, T).
kernel void scale_shared(device float* y [[buffer(0)]],           // [T, columns]
                         const device float* gate [[buffer(1)]],  // [T], gate_stride apart
                         constant SharedArgs& a [[buffer(2)]],
                         uint3 tg [[threadgroup_position_in_grid]],
                         uint tid [[thread_index_in_threadgroup]],
                         uint3 threads [[threads_per_threadgroup]]) {
  const uint i = tg.x * threads.x + tid;
  if (i < a.columns) {
    y[ulong(tg.y) * a.columns + i] *= sigmoid(gate[ulong(tg.y) * a.gate_stride]);
  }
}

// y[t] += sum over r of weight[t, r] * out[row_of[t, r]], of those that are there, by rising r. Places r are a token's
// experts by rising id.
// Grid: (threadgroups of columns, T).
kernel void add_experts(device float* y [[buffer(0)]],                // [T, columns]
                        const device float* out [[buffer(1)]],        // [pairs, columns]
                        const device int* row_of [[buffer(2)]],       // [T, k], -1: not among these
                        const device float* weights [[buffer(3)]],    // [T, k]
                        constant GatherArgs& a [[buffer(4)]],
                        uint3 tg [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]],
                        uint3 threads [[threads_per_threadgroup]]) {
  const uint i = tg.x * threads.x + tid;
  if (i >= a.columns) {
    return;
  }
  float sum = y[ulong(tg.y) * a.columns + i];
  for (uint r = 0; r < a.experts_per_token; r++) {
    const ulong pair = ulong(tg.y) * a.experts_per_token + r;
    const int row = row_of[pair];
    if (row >= 0) {
      sum += weights[pair] * out[ulong(row) * a.columns + i];
    }
  }
  y[ulong(tg.y) * a.columns + i] = sum;
}
