#include <metal_stdlib>
using namespace metal;
#include "kernel_args.h"

// out[t, i] = x[t, i] / sqrt(mean(x[t]^2) + eps) * weight[i]
// Grid: one threadgroup a row, any number of SIMD groups.
kernel void rms_norm(const device float* x [[buffer(0)]],       // [rows, columns], rows `stride` apart
                     const device float* weight [[buffer(1)]],  // [columns]
                     device float* out [[buffer(2)]],           // [rows, columns]
                     constant NormArgs& a [[buffer(3)]],
                     uint row [[threadgroup_position_in_grid]],
                     uint tid [[thread_index_in_threadgroup]],
                     uint threads [[threads_per_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]],
                     uint group [[simdgroup_index_in_threadgroup]],
                     uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const device float* in = x + ulong(row) * a.stride;
  float sum = 0.0f;
  for (uint i = tid; i < a.columns; i += threads) {
    sum += in[i] * in[i];
  }
  sum = simd_sum(sum);
  if (lane == 0) {
    partial[group] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = simd_sum(lane < groups ? partial[lane] : 0.0f);
  const float scale = 1.0f / precise::sqrt(sum / float(a.columns) + a.eps);
  for (uint i = tid; i < a.columns; i += threads) {
    out[ulong(row) * a.columns + i] = in[i] * scale * weight[i];
  }
}
