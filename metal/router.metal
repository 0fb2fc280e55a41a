#include <metal_stdlib>
using namespace metal;
#include "kernel_args.h"

// The k most probable experts of a token; probability = softmax over all; ties go to the lower id.
// Grid: one threadgroup of one SIMD group a token.
kernel void route(device float* logits [[buffer(0)]],  // [T, experts], stride apart; scratch afterwards
                        device uint* top_experts [[buffer(1)]],   // [T, k], by falling probability
                        device float* top_weights [[buffer(2)]],
                        device uint* experts [[buffer(3)]],       // [T, k], the same by rising id
                        device float* weights [[buffer(4)]],
                        constant RouterArgs& a [[buffer(5)]],
                        uint token [[threadgroup_position_in_grid]],
                        uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint chosen[kMaxExpertsPerToken];
  threadgroup float probability[kMaxExpertsPerToken];
  device float* row = logits + ulong(token) * a.stride;
  const uint k = a.experts_per_token;
  float top = -INFINITY;
  for (uint i = lane; i < a.experts; i += 32) {
    top = max(top, row[i]);
  }
  top = simd_max(top);
  float sum = 0.0f;
  for (uint i = lane; i < a.experts; i += 32) {
    const float e = precise::exp(row[i] - top);
    row[i] = e;
    sum += e;
  }
  sum = simd_sum(sum);
  for (uint i = lane; i < a.experts; i += 32) {
    row[i] = row[i] / sum;
  }
  float total = 0.0f;
  for (uint place = 0; place < k; place++) {
    float best = -1.0f;
    uint id = 0xffffffffu;
    for (uint i = lane; i < a.experts; i += 32) {
      const bool better = row[i] > best;
      best = better ? row[i] : best;
      id = better ? i : id;
    }
    for (ushort other = 16; other > 0; other /= 2) {
      const float b = simd_shuffle_xor(best, other);
      const uint o = simd_shuffle_xor(id, other);
      const bool better = b > best || (b == best && o < id);
      best = better ? b : best;
      id = better ? o : id;
    }
    id = min(id, a.experts - 1);  // NaN: any, but a place in the table
    if (lane == id % 32) {
      row[id] = -1.0f;  // taken: this lane alone looks at it
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
  }
}
