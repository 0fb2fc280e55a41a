#include <metal_stdlib>
using namespace metal;
#include "kernel_args.h"

enum : uint { kPerLane = kMaxExperts / 32 };

// The k most probable experts of a token; probability = softmax over all; ties go to the lower id. A lane keeps the
// probabilities of every 32nd expert.
// Grid: one threadgroup of one SIMD group a token.
kernel void route(const device float* logits [[buffer(0)]],  // [T, experts], stride apart
                  device uint* top_experts [[buffer(1)]],    // [T, k], by falling probability
                  device float* top_weights [[buffer(2)]],
                  device uint* experts [[buffer(3)]],        // [T, k], the same by rising id
                  device float* weights [[buffer(4)]],
                  const device ulong* table [[buffer(5)]],   // [experts]: addresses of their slots, where they are known
                  device ulong* slots [[buffer(6)]],         // [T, k]: those of `experts`
                  constant RouterArgs& a [[buffer(7)]],
                  uint token [[threadgroup_position_in_grid]],
                  uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint chosen[kMaxExpertsPerToken];
  threadgroup float probability[kMaxExpertsPerToken];
  const device float* row = logits + ulong(token) * a.stride;
  const uint k = a.experts_per_token;
  float p[kPerLane];
  float top = -INFINITY;
#pragma unroll
  for (uint j = 0; j < kPerLane; j++) {
    p[j] = lane + 32 * j < a.experts ? row[lane + 32 * j] : -INFINITY;
    top = max(top, p[j]);
  }
  top = simd_max(top);
  float sum = 0.0f;
#pragma unroll
  for (uint j = 0; j < kPerLane; j++) {
    p[j] = lane + 32 * j < a.experts ? precise::exp(p[j] - top) : -1.0f;
    sum += max(p[j], 0.0f) + (p[j] - p[j]);  // the difference keeps a NaN, which max() drops
  }
  sum = simd_sum(sum);
#pragma unroll
  for (uint j = 0; j < kPerLane; j++) {
    p[j] = p[j] < 0.0f ? p[j] : p[j] / sum;
  }
  float total = 0.0f;
  for (uint place = 0; place < k; place++) {
    float best = -1.0f;
    uint id = 0xffffffffu;
#pragma unroll
    for (uint j = 0; j < kPerLane; j++) {
      const bool better = p[j] > best;
      best = better ? p[j] : best;
      id = better ? lane + 32 * j : id;
    }
    for (ushort other = 16; other > 0; other /= 2) {
      const float b = simd_shuffle_xor(best, other);
      const uint o = simd_shuffle_xor(id, other);
      const bool better = b > best || (b == best && o < id);
      best = better ? b : best;
      id = better ? o : id;
    }
    id = min(id, a.experts - 1);  // NaN: any, but a place in the table
#pragma unroll
    for (uint j = 0; j < kPerLane; j++) {
      p[j] = lane + 32 * j == id ? -1.0f : p[j];  // taken
    }
    total += best;
    if (lane == 0) {
      chosen[place] = id;
      probability[place] = best;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane < k) {
    uint rank = 0;
    for (uint i = 0; i < k; i++) {
      rank += chosen[i] < chosen[lane] || (chosen[i] == chosen[lane] && i < lane) ? 1 : 0;
    }
    const ulong out = ulong(token) * k;
    // NaN among the logits makes NaN of all probabilities, so of the weights too: it is not forgotten.
    const float weight = isnan(sum) ? sum : (a.normalise != 0 ? probability[lane] / total : probability[lane]);
    top_experts[out + lane] = chosen[lane];
    top_weights[out + lane] = weight;
    experts[out + rank] = chosen[lane];
    weights[out + rank] = weight;
    slots[out + rank] = table[chosen[lane]];
  }
}
