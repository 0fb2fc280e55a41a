#include <metal_stdlib>
using namespace metal;
#include "kernel_args.h"

// The likeliest tokens, for sampling without a look at the whole vocabulary: each threadgroup finds the best of its
// segment of the logits, and one more picks from what they found.

// The better of two: the larger, ties to the lower id.
inline bool better(float a, uint a_id, float b, uint b_id) {
  return a > b || (a == b && a_id < b_id);
}

// The best (value, id) of all threads of a threadgroup.
struct Best {
  float value;
  uint id;
};

inline Best best_of_threads(float value, uint id, threadgroup float* values, threadgroup uint* ids, uint lane, uint simd,
                            uint simds) {
  for (ushort other = 16; other > 0; other /= 2) {
    const float v = simd_shuffle_xor(value, other);
    const uint i = simd_shuffle_xor(id, other);
    const bool take = better(v, i, value, id);
    value = take ? v : value;
    id = take ? i : id;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) {
    values[simd] = value;
    ids[simd] = id;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Best best;
  best.value = values[0];
  best.id = ids[0];
  for (uint s = 1; s < simds; s++) {
    if (better(values[s], ids[s], best.value, best.id)) {
      best.value = values[s];
      best.id = ids[s];
    }
  }
  return best;
}

// The a.count best logits of each segment, and its sum of exp(logit - best); NaN if one of them is not finite.
// Grid: one threadgroup a segment; a.segment at most 4096.
kernel void top_segment(const device float* logits [[buffer(0)]],  // [vocab]
                        device float* values [[buffer(1)]],        // [segments, count], falling
                        device uint* ids [[buffer(2)]],
                        device float* sums [[buffer(3)]],          // [segments]
                        constant TopLogitsArgs& a [[buffer(4)]],
                        uint tg [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]],
                        uint threads [[threads_per_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]],
                        uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float left[4096];
  threadgroup float simd_values[32];
  threadgroup uint simd_ids[32];
  const uint begin = tg * a.segment;
  const uint size = min(a.segment, a.vocab - begin);
  float broken = 0.0f;
  for (uint i = tid; i < size; i += threads) {
    left[i] = logits[begin + i];
    broken += left[i] * 0.0f;
  }
  float top = 0.0f;
  for (uint n = 0; n < a.count; n++) {
    float value = -INFINITY;
    uint id = 0xffffffffu;
    for (uint i = tid; i < size; i += threads) {  // a thread's own elements alone
      if (better(left[i], i, value, id)) {
        value = left[i];
        id = i;
      }
    }
    const Best best = best_of_threads(value, id, simd_values, simd_ids, lane, simd, simds);
    if (n == 0) {
      top = best.value;
    }
    if (best.id < size && best.id % threads == tid) {
      left[best.id] = -INFINITY;
    }
    if (tid == 0) {
      values[tg * a.count + n] = best.value;
      ids[tg * a.count + n] = best.id < size ? begin + best.id : 0xffffffffu;
    }
  }
  float sum = broken;
  for (uint i = tid; i < size; i += threads) {
    sum += precise::exp(logits[begin + i] - top);
  }
  sum = simd_sum(sum);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) {
    simd_values[simd] = sum;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) {
    float total = 0.0f;
    for (uint s = 0; s < simds; s++) {
      total += simd_values[s];
    }
    sums[tg] = total;
  }
}

// The a.count best of all, and log(sum(exp(logit))) over the vocabulary. A lane walks down the lists of its segments.
// Grid: one threadgroup of 32 threads; a.segments at most 1024.
kernel void top_logits(const device float* values [[buffer(0)]],  // [segments, count], falling
                       const device uint* ids [[buffer(1)]],
                       const device float* sums [[buffer(2)]],    // [segments]
                       device float* top_values [[buffer(3)]],    // [count + 1]: falling, then the logarithm
                       device uint* top_ids [[buffer(4)]],        // [count]
                       constant TopLogitsArgs& a [[buffer(5)]],
                       uint lane [[thread_index_in_simdgroup]]) {
  threadgroup uint taken[1024];  // of each segment's list
  for (uint s = lane; s < a.segments; s += 32) {
    taken[s] = 0;
  }
  float highest = -INFINITY;
  for (uint s = lane; s < a.segments; s += 32) {
    highest = max(highest, values[s * a.count]);
  }
  highest = simd_max(highest);
  float sum = 0.0f;
  for (uint s = lane; s < a.segments; s += 32) {
    sum += sums[s] * precise::exp(values[s * a.count] - highest);
  }
  sum = simd_sum(sum);
  for (uint n = 0; n < a.count; n++) {
    float value = -INFINITY;
    uint id = 0xffffffffu;
    uint from = 0;
    for (uint s = lane; s < a.segments; s += 32) {
      if (taken[s] < a.count) {
        const uint at = s * a.count + taken[s];
        if (better(values[at], ids[at], value, id)) {
          value = values[at];
          id = ids[at];
          from = s;
        }
      }
    }
    float best = value;
    uint best_id = id;
    for (ushort other = 16; other > 0; other /= 2) {
      const float v = simd_shuffle_xor(best, other);
      const uint i = simd_shuffle_xor(best_id, other);
      const bool take = better(v, i, best, best_id);
      best = take ? v : best;
      best_id = take ? i : best_id;
    }
    if (id == best_id && id != 0xffffffffu) {
      taken[from]++;
    }
    if (lane == 0) {
      top_values[n] = best;
      top_ids[n] = best_id;
    }
  }
  if (lane == 0) {
    top_values[a.count] = highest + precise::log(sum);
  }
}
