#include <metal_stdlib>
using namespace metal;
#include "activations.h"
#include "kernel_args.h"

// The gated attention mixer between its projections.
//
// Keys and values of a layer lie by position: [capacity, kv heads, head_dim] in the cache's type; int8 has a scale for
// each row. Of q, a head has its query and then its gate.

constant uint KV_TYPE [[function_constant(7)]];

// Element `index` of keys or values; `scale` is that of its row (int8).
inline float load_kv(const device uchar* rows, ulong index, float scale) {
  if (KV_TYPE == kKvF32) {
    return ((const device float*)rows)[index];
  }
  if (KV_TYPE == kKvF16) {
    return float(((const device half*)rows)[index]);
  }
  return float(((const device char*)rows)[index]) * scale;
}

// Elements index .. index + 3, index a multiple of 4.
inline float4 load_kv4(const device uchar* rows, ulong index, float scale) {
  if (KV_TYPE == kKvF32) {
    return *(const device float4*)(rows + 4 * index);
  }
  if (KV_TYPE == kKvF16) {
    return float4(*(const device half4*)(rows + 2 * index));
  }
  return float4(*(const device char4*)(rows + index)) * scale;
}

inline float row_scale(const device float* scales, ulong row) {
  return KV_TYPE == kKvInt8 ? scales[row] : 1.0f;
}

// Stores a row that its SIMD group holds in threadgroup memory. int8: scale = max |x| / 127, NaN if x is not finite.
inline void store_kv(const threadgroup float* x, uint dim, device uchar* rows, device float* scales, ulong row, uint lane) {
  float top = 0.0f;
  float broken = 0.0f;
  for (uint i = lane; i < dim; i += 32) {
    top = max(top, abs(x[i]));
    broken += x[i] * 0.0f;  // NaN if x is not finite
  }
  float inverse = 0.0f;
  if (KV_TYPE == kKvInt8) {
    top = simd_max(top);
    broken = simd_sum(broken);
    inverse = 127.0f / top;
    if (isinf(inverse) || isnan(broken)) {
      inverse = 0.0f;
    }
    if (lane == 0) {
      scales[row] = top / 127.0f + broken;
    }
  }
  for (uint i = lane; i < dim; i += 32) {
    const ulong at = row * dim + i;
    if (KV_TYPE == kKvF32) {
      ((device float*)rows)[at] = x[i];
    } else if (KV_TYPE == kKvF16) {
      ((device half*)rows)[at] = half(x[i]);
    } else {
      ((device char*)rows)[at] = char(inverse == 0.0f ? 0 : int(rint(x[i] * inverse)));
    }
  }
}

// Queries and keys: x / sqrt(mean(x^2) + eps) * weight, then the first rotary_dim rotated as pairs (j, j + rotary_dim / 2)
// by the angles of the token's position. Queries stay where they are; keys and values go to the cache.
// Grid: (query heads, key heads, value heads; T), 32 threads.
kernel void attention_store(device float* in [[buffer(0)]],                 // [T, ..]: the projections, a.stride apart
                            const device float* q_norm [[buffer(1)]],       // [head_dim]
                            const device float* k_norm [[buffer(2)]],
                            const device float2* rotary [[buffer(3)]],      // [T, rotary_dim / 2]: cosine, sine
                            device uchar* keys [[buffer(4)]],
                            device uchar* values [[buffer(5)]],
                            device float* key_scales [[buffer(6)]],         // int8: [capacity, kv heads]
                            device float* value_scales [[buffer(7)]],
                            constant AttentionStoreArgs& a [[buffer(8)]],
                            uint3 tg [[threadgroup_position_in_grid]],
                            uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float x[512];
  const uint dim = a.head_dim;
  const bool query = tg.x < a.heads;
  const uint kv_head = query ? 0 : (tg.x - a.heads) % a.kv_heads;
  const bool key = !query && tg.x < a.heads + a.kv_heads;
  device float* row = in + ulong(tg.y) * a.stride;
  row += query ? tg.x * 2 * dim : (key ? a.k : a.v) + kv_head * dim;
  const ulong cache_row = (a.position + tg.y) * a.kv_heads + kv_head;

  float sum = 0.0f;
  for (uint i = lane; i < dim; i += 32) {
    x[i] = row[i];
    sum += row[i] * row[i];
  }
  sum = simd_sum(sum);
  if (query || key) {
    const float scale = 1.0f / precise::sqrt(sum / float(dim) + a.eps);
    const device float* weight = query ? q_norm : k_norm;
    for (uint i = lane; i < dim; i += 32) {
      x[i] = x[i] * scale * weight[i];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint pairs = a.rotary_dim / 2;
    for (uint j = lane; j < pairs; j += 32) {
      const float2 angle = rotary[ulong(tg.y) * pairs + j];
      const float u = x[j];
      const float v = x[j + pairs];
      x[j] = u * angle.x - v * angle.y;
      x[j + pairs] = u * angle.y + v * angle.x;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (query) {
    for (uint i = lane; i < dim; i += 32) {
      row[i] = x[i];
    }
  } else {
    store_kv(x, dim, key ? keys : values, key ? key_scales : value_scales, cache_row, lane);
  }
}

// Positions of a split for a token at `position`: a multiple of `block`, so that at most `splits` are needed.
inline uint split_positions(ulong position, uint block, uint splits) {
  const ulong all = ulong(block) * splits;
  return uint((position + all) / all) * block;
}

// Attention of a few tokens, split over positions: of each split m = max score, l = sum of exp(score - m),
// sum of exp(score - m) * value; score = scale * q . k. A SIMD group takes one query head, and the heads that share keys
// and values sit in one threadgroup.
// Grid: (splits, kv heads, T), 32 * heads / kv heads threads.
template <uint QUADS>  // of a head, that a lane holds
kernel void attend(const device float* q [[buffer(0)]],      // [T, ..], a.stride apart
                   const device uchar* keys [[buffer(1)]],
                   const device uchar* values [[buffer(2)]],
                   const device float* key_scales [[buffer(3)]],
                   const device float* value_scales [[buffer(4)]],
                   device float* part [[buffer(5)]],         // [T, heads, splits, head_dim]
                   device float2* part_ml [[buffer(6)]],     // [T, heads, splits]
                   constant AttendArgs& a [[buffer(7)]],
                   uint3 tg [[threadgroup_position_in_grid]],
                   uint lane [[thread_index_in_simdgroup]],
                   uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint dim = a.head_dim;
  const uint shared = a.heads / a.kv_heads;
  const uint head = tg.y * shared + simd;
  const ulong position = a.position + tg.z;
  const uint length = split_positions(position, a.block, a.splits);
  const ulong begin = ulong(tg.x) * length;
  if (begin > position) {
    return;
  }
  const ulong end = min(begin + length, position + 1);
  const device float* query = q + ulong(tg.z) * a.stride + head * 2 * dim;
  float4 qs[QUADS];
  float4 out[QUADS];
#pragma unroll
  for (uint i = 0; i < QUADS; i++) {
    const uint d = 4 * (lane + 32 * i);
    qs[i] = float4(0.0f);
    out[i] = float4(0.0f);
    if (d < dim) {
      qs[i] = float4(query[d], query[d + 1], query[d + 2], query[d + 3]) * a.scale;
    }
  }
  float m = -INFINITY;
  float l = 0.0f;
  for (ulong j = begin; j < end; j += 4) {
    float scores[4];
#pragma unroll
    for (uint p = 0; p < 4; p++) {
      const ulong row = min(j + p, end - 1) * a.kv_heads + tg.y;
      const float scale = row_scale(key_scales, row);
      float sum = 0.0f;
#pragma unroll
      for (uint i = 0; i < QUADS; i++) {
        const uint d = 4 * (lane + 32 * i);
        if (d < dim) {
          const float4 k = load_kv4(keys, row * dim + d, scale);
          sum = fma(qs[i].x, k.x, sum);
          sum = fma(qs[i].y, k.y, sum);
          sum = fma(qs[i].z, k.z, sum);
          sum = fma(qs[i].w, k.w, sum);
        }
      }
      scores[p] = sum;
    }
    float top = m;
#pragma unroll
    for (uint p = 0; p < 4; p++) {
      scores[p] = simd_sum(scores[p]);
      top = j + p < end ? max(top, scores[p]) : top;
    }
    const float keep = precise::exp(m - top);
    l *= keep;
#pragma unroll
    for (uint i = 0; i < QUADS; i++) {
      out[i] *= keep;
    }
#pragma unroll
    for (uint p = 0; p < 4; p++) {
      const float e = j + p < end ? precise::exp(scores[p] - top) : 0.0f;
      l += e;
      const ulong row = min(j + p, end - 1) * a.kv_heads + tg.y;
      const float scale = row_scale(value_scales, row);
#pragma unroll
      for (uint i = 0; i < QUADS; i++) {
        const uint d = 4 * (lane + 32 * i);
        if (d < dim) {
          const float4 v = load_kv4(values, row * dim + d, scale);
          out[i].x = fma(e, v.x, out[i].x);
          out[i].y = fma(e, v.y, out[i].y);
          out[i].z = fma(e, v.z, out[i].z);
          out[i].w = fma(e, v.w, out[i].w);
        }
      }
    }
    m = top;
  }
  const ulong at = (ulong(tg.z) * a.heads + head) * a.splits + tg.x;
#pragma unroll
  for (uint i = 0; i < QUADS; i++) {
    const uint d = 4 * (lane + 32 * i);
    if (d < dim) {
      *(device float4*)(part + at * dim + d) = out[i];
    }
  }
  if (lane == 0) {
    part_ml[at] = float2(m, l);
  }
}

template [[host_name("attend_128")]] kernel decltype(attend<1>) attend<1>;
template [[host_name("attend_256")]] kernel decltype(attend<2>) attend<2>;
template [[host_name("attend_512")]] kernel decltype(attend<4>) attend<4>;

// Joins the splits of a token's head, divides, and applies the gate: out = sum / l * sigmoid(gate).
// Grid: (heads, T).
kernel void attend_join(const device float* q [[buffer(0)]],        // [T, ..], a.stride apart; gates follow queries
                        const device float* part [[buffer(1)]],     // [T, heads, splits, head_dim]
                        const device float2* part_ml [[buffer(2)]], // [T, heads, splits]
                        device float* out [[buffer(3)]],            // [T, heads, head_dim]
                        constant AttendArgs& a [[buffer(4)]],
                        uint3 tg [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]],
                        uint3 threads [[threads_per_threadgroup]]) {
  const ulong position = a.position + tg.y;
  const uint length = split_positions(position, a.block, a.splits);
  const uint splits = uint(position / length) + 1;
  const ulong first = (ulong(tg.y) * a.heads + tg.x) * a.splits;
  float m = -INFINITY;
  for (uint s = 0; s < splits; s++) {
    m = max(m, part_ml[first + s].x);
  }
  float l = 0.0f;
  for (uint s = 0; s < splits; s++) {
    l += part_ml[first + s].y * precise::exp(part_ml[first + s].x - m);
  }
  const device float* gate = q + ulong(tg.y) * a.stride + (tg.x * 2 + 1) * a.head_dim;
  for (uint d = tid; d < a.head_dim; d += threads.x) {
    float sum = 0.0f;
    for (uint s = 0; s < splits; s++) {
      sum = fma(part[(first + s) * a.head_dim + d], precise::exp(part_ml[first + s].x - m), sum);
    }
    out[(ulong(tg.y) * a.heads + tg.x) * a.head_dim + d] = sum / l * sigmoid(gate[d]);
  }
}

// Attention of many tokens, in tiles of kQueryTile queries that share a KV head: query row r is head r % shared of token
// r / shared. Tiles of 32 positions from position 0 on with an online softmax (Milakov and Gimelshein, 2018), so that the
// result of a token does not depend on the chunk. A SIMD group has 4 query rows; its lanes are positions while it computes
// scores, and columns while it adds values.
// Grid: (query tiles, kv heads), 128 threads; head_dim at most 256.
template <uint PER_LANE>
kernel void attend_tile(const device float* q [[buffer(0)]],  // [T, ..], a.stride apart
                        const device uchar* keys [[buffer(1)]],
                        const device uchar* values [[buffer(2)]],
                        const device float* key_scales [[buffer(3)]],
                        const device float* value_scales [[buffer(4)]],
                        device float* out [[buffer(5)]],      // [T, heads, head_dim]
                        constant AttendArgs& a [[buffer(6)]],
                        uint3 tg [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float queries[kQueryTile * 32 * PER_LANE];  // [row, dimension]
  threadgroup float tile[32 * 33];                        // keys: [dimension of this part, position]
  const uint dim = a.head_dim;
  const uint shared = a.heads / a.kv_heads;
  const uint rows = a.tokens * shared;
  const uint first = tg.x * kQueryTile;
  for (uint i = tid; i < kQueryTile * 32 * PER_LANE; i += 128) {
    const uint row = min(first + i / (32 * PER_LANE), rows - 1);
    const uint d = i % (32 * PER_LANE);
    const device float* query = q + ulong(row / shared) * a.stride + (tg.y * shared + row % shared) * 2 * dim;
    queries[i] = d < dim ? query[d] * a.scale : 0.0f;
  }
  ulong limit[4];  // the last position that each row sees
  float m[4];
  float l[4];
  float sums[4][PER_LANE];
#pragma unroll
  for (uint r = 0; r < 4; r++) {
    limit[r] = a.position + min(first + simd * 4 + r, rows - 1) / shared;
    m[r] = -INFINITY;
    l[r] = 0.0f;
#pragma unroll
    for (uint i = 0; i < PER_LANE; i++) {
      sums[r][i] = 0.0f;
    }
  }
  const ulong last = a.position + min(first + kQueryTile - 1, rows - 1) / shared;
  for (ulong begin = 0; begin <= last; begin += 32) {
    float scores[4];
#pragma unroll
    for (uint r = 0; r < 4; r++) {
      scores[r] = 0.0f;
    }
    for (uint d0 = 0; d0 < dim; d0 += 32) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      for (uint i = tid; i < 32 * 32; i += 128) {
        const ulong row = min(begin + i / 32, last) * a.kv_heads + tg.y;
        const uint d = d0 + i % 32;
        tile[i % 32 * 33 + i / 32] = d < dim ? load_kv(keys, row * dim + d, row_scale(key_scales, row)) : 0.0f;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      const threadgroup float* query = queries + simd * 4 * 32 * PER_LANE + d0;
#pragma unroll
      for (uint d = 0; d < 32; d++) {
        const float k = tile[d * 33 + lane];
#pragma unroll
        for (uint r = 0; r < 4; r++) {
          scores[r] = fma(query[r * 32 * PER_LANE + d], k, scores[r]);
        }
      }
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
      const float s = begin + lane <= limit[r] ? scores[r] : -INFINITY;
      const float top = max(m[r], simd_max(s));
      const float keep = precise::exp(m[r] - top);
      scores[r] = precise::exp(s - top);
      l[r] = l[r] * keep + simd_sum(scores[r]);
      m[r] = top;
#pragma unroll
      for (uint i = 0; i < PER_LANE; i++) {
        sums[r][i] *= keep;
      }
    }
    const uint count = uint(min(ulong(32), last + 1 - begin));
    for (uint p = 0; p < count; p++) {
      const ulong row = (begin + p) * a.kv_heads + tg.y;
      const float scale = row_scale(value_scales, row);
      float weight[4];
#pragma unroll
      for (uint r = 0; r < 4; r++) {
        weight[r] = simd_shuffle(scores[r], ushort(p));
      }
#pragma unroll
      for (uint i = 0; i < PER_LANE; i++) {
        const uint d = lane + 32 * i;
        const float v = d < dim ? load_kv(values, row * dim + d, scale) : 0.0f;
#pragma unroll
        for (uint r = 0; r < 4; r++) {
          sums[r][i] = fma(weight[r], v, sums[r][i]);
        }
      }
    }
  }
#pragma unroll
  for (uint r = 0; r < 4; r++) {
    const uint row = first + simd * 4 + r;
    if (row < rows) {
      const uint head = tg.y * shared + row % shared;
      const device float* gate = q + ulong(row / shared) * a.stride + (head * 2 + 1) * dim;
      device float* to = out + (ulong(row / shared) * a.heads + head) * dim;
#pragma unroll
      for (uint i = 0; i < PER_LANE; i++) {
        const uint d = lane + 32 * i;
        if (d < dim) {
          to[d] = sums[r][i] / l[r] * sigmoid(gate[d]);
        }
      }
    }
  }
}

template [[host_name("attend_tile_32")]] kernel decltype(attend_tile<1>) attend_tile<1>;
template [[host_name("attend_tile_64")]] kernel decltype(attend_tile<2>) attend_tile<2>;
template [[host_name("attend_tile_128")]] kernel decltype(attend_tile<4>) attend_tile<4>;
template [[host_name("attend_tile_256")]] kernel decltype(attend_tile<8>) attend_tile<8>;
