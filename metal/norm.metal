#include <metal_stdlib>
using namespace metal;
#include "activations.h"
#include "kernel_args.h"

constant uint RESIDUAL [[function_constant(9)]];

// Joins what the block before left to the residual stream, then normalises it for the next:
//   x[t] += delta[t]                                                                   kAdd
//   x[t] += sigmoid(gate[t]) * shared[t] + sum over r of weight[t, r] * delta[t, r]    kExperts
//   h[t] = x[t] / sqrt(mean(x[t]^2) + eps) * weight
// Grid: one threadgroup a token, any number of SIMD groups.
kernel void norm(device float* x [[buffer(0)]],                   // [T, columns]
                 const device float* weight [[buffer(1)]],        // [columns]
                 device float* h [[buffer(2)]],                   // [T, columns]
                 const device float* delta [[buffer(3)]],         // kAdd: [T, columns]; kExperts: [T, k, columns]
                 const device float* shared [[buffer(4)]],        // kExperts: [T, columns]
                 const device float* gate [[buffer(5)]],          // kExperts: [T], gate_stride apart
                 const device float* route_weights [[buffer(6)]], // kExperts: [T, k]
                 constant NormArgs& a [[buffer(7)]],
                 uint token [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]],
                 uint threads [[threads_per_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]],
                 uint group [[simdgroup_index_in_threadgroup]],
                 uint groups [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const ulong row = ulong(token) * a.columns;
  const uint k = a.experts_per_token;
  float shared_gate = 0.0f;
  if (RESIDUAL == kExperts) {
    shared_gate = sigmoid(gate[ulong(token) * a.gate_stride]);
  }
  float sum = 0.0f;
  for (uint i = tid; i < a.columns; i += threads) {
    float v = x[row + i];
    if (RESIDUAL == kAdd) {
      v += delta[row + i];
    }
    if (RESIDUAL == kExperts) {
      float y = shared_gate * shared[row + i];
      for (uint r = 0; r < k; r++) {
        const ulong pair = ulong(token) * k + r;
        y += route_weights[pair] * delta[pair * a.columns + i];
      }
      v += y;
    }
    if (RESIDUAL != kNone) {
      x[row + i] = v;
    }
    sum += v * v;
  }
  sum = simd_sum(sum);
  if (lane == 0) {
    partial[group] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = simd_sum(lane < groups ? partial[lane] : 0.0f);
  const float scale = 1.0f / precise::sqrt(sum / float(a.columns) + a.eps);
  for (uint i = tid; i < a.columns; i += threads) {  // its own elements: each thread sees what it wrote
    h[row + i] = x[row + i] * scale * weight[i];
  }
}
