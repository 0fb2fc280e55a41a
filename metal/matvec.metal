#include <metal_stdlib>
using namespace metal;
#include "matvec.h"

// y[t] = W x[t] (+ bias) for up to four matrices that share their input and their encoding: a few tokens, each
// threadgroup on some rows of one matrix for one token.
// Grid: (the matrices' threadgroups one after another, T). A threadgroup takes
// SIMD groups * (32 / LANES) * kRows * passes rows.
kernel void matvec(const device uchar* arena [[buffer(0)]],
                   const device float* x [[buffer(1)]],  // [T, columns], x_stride apart
                   device float* y [[buffer(2)]],        // [T, ..], y_stride apart
                   constant MatvecArgs& a [[buffer(3)]],
                   uint3 tg [[threadgroup_position_in_grid]],
                   uint tid [[thread_index_in_threadgroup]],
                   uint3 threads [[threads_per_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]],
                   uint simd [[simdgroup_index_in_threadgroup]],
                   uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float4 quads[kVectorQuads];
  threadgroup float sums[kTilePieces];
  uint group = tg.x;
  uint m = 0;
  while (group >= a.matrices[m].groups) {
    group -= a.matrices[m].groups;
    m++;
  }
  const ProjectedMatrix matrix = a.matrices[m];
  const device float* in = x + ulong(tg.y) * a.x_stride;
  device float* out = y + ulong(tg.y) * a.y_stride + matrix.out;

  const uint teams = 32 / LANES;  // of lanes, on rows of their own
  for (uint pass = 0; pass < a.passes; pass++) {
    const uint first = (((group * a.passes + pass) * simds + simd) * teams + lane / LANES) * kRows;
    RowSums total;
    clear(total);
    Rows rows = rows_from(arena, matrix.place, first, matrix.rows, a.columns, lane % LANES);
    for (uint begin = 0; begin < a.columns; begin += kMaxColumnTile) {
      Fetched fetched;
      fetch_first(rows, begin, a.columns, lane % LANES, fetched);
      if (pass == 0 || a.columns > kMaxColumnTile) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        load_vector(in, begin, a.columns, quads, sums, tid, threads.x);
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
      add_rows(rows, a.columns, begin, lane % LANES, quads, sums, fetched, total);
    }
    const float v = sum_lanes(total, lane);
    const uint row = first + lane % LANES;
    if (lane % LANES < kRows && row < matrix.rows) {
      out[row] = matrix.bias == kNoBias ? v : v + ((const device float*)(arena + matrix.bias))[row];
    }
  }
}

// out = silu(gate_proj x) * (up_proj x), of a shared expert or a dense MLP for each token, or of the experts of
// some (token, place among its experts by rising id) pairs. The kRows rows that lanes share are one of gate_proj and
// that of up_proj: a threadgroup takes SIMD groups * (32 / LANES) * passes of each.
// Grid: (threadgroups of rows, T or pairs).
kernel void gate_up(const device uchar* arena [[buffer(0)]],
                    const device float* x [[buffer(1)]],         // [T, columns], x_stride apart
                    device float* out [[buffer(2)]],             // [T, rows]; of pairs: [T, k, rows]
                    const device Slot* slots [[buffer(3)]],      // kRouted: [T, k]; kListed: of each pair
                    const device uint* pairs [[buffer(4)]],      // kListed: t * k + place
                    constant GateUpArgs& a [[buffer(5)]],
                    uint3 tg [[threadgroup_position_in_grid]],
                    uint tid [[thread_index_in_threadgroup]],
                    uint3 threads [[threads_per_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]],
                    uint simd [[simdgroup_index_in_threadgroup]],
                    uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float4 quads[kVectorQuads];
  threadgroup float sums[kTilePieces];
  const device uchar* base = arena;
  uint row_of_x = tg.y;
  uint row_of_out = tg.y;
  if (POOLED != kArena) {
    row_of_out = POOLED == kListed ? pairs[tg.y] : tg.y;
    row_of_x = row_of_out / a.experts_per_token;
    base = slots[tg.y].base;
  }
  const device float* in = x + ulong(row_of_x) * a.x_stride;
  device float* y = out + ulong(row_of_out) * a.rows;

  const uint teams = 32 / LANES;
  for (uint pass = 0; pass < a.passes; pass++) {
    const uint row = ((tg.x * a.passes + pass) * simds + simd) * teams + lane / LANES;
    const uint there = min(row, a.rows - 1);
    Rows rows;
    rows.r[0] = row_from(base, a.gate, there, a.columns, lane % LANES);
    rows.r[1] = row_from(base, a.up, there, a.columns, lane % LANES);
    RowSums total;
    clear(total);
    for (uint begin = 0; begin < a.columns; begin += kMaxColumnTile) {
      Fetched fetched;
      fetch_first(rows, begin, a.columns, lane % LANES, fetched);
      if (pass == 0 || a.columns > kMaxColumnTile) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        load_vector(in, begin, a.columns, quads, sums, tid, threads.x);
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
      add_rows(rows, a.columns, begin, lane % LANES, quads, sums, fetched, total);
    }
    const float v = sum_lanes(total, lane);  // of gate_proj in even lanes, of up_proj in odd ones
    const float u = simd_shuffle_xor(v, 1);
    if (lane % LANES == 0 && row < a.rows) {
      y[row] = silu(v) * u;
    }
  }
}

// out[pair] = down_proj x[pair] of the experts of some pairs.
// Grid: (threadgroups of rows, pairs).
kernel void expert_down(const device float* x [[buffer(0)]],      // [T, k, columns]
                        device float* out [[buffer(1)]],          // [T, k, rows]
                        const device Slot* slots [[buffer(2)]],   // as for gate_up
                        const device uint* pairs [[buffer(3)]],
                        constant DownArgs& a [[buffer(4)]],
                        uint3 tg [[threadgroup_position_in_grid]],
                        uint tid [[thread_index_in_threadgroup]],
                        uint3 threads [[threads_per_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]],
                        uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float4 quads[kVectorQuads];
  threadgroup float sums[kTilePieces];
  const uint pair = POOLED == kListed ? pairs[tg.y] : tg.y;
  const device uchar* base = slots[tg.y].base;
  const uint teams = 32 / LANES;
  for (uint pass = 0; pass < a.passes; pass++) {
    const uint first = (((tg.x * a.passes + pass) * simds + simd) * teams + lane / LANES) * kRows;
    RowSums total;
    clear(total);
    Rows rows = rows_from(base, a.place, first, a.rows, a.columns, lane % LANES);
    for (uint begin = 0; begin < a.columns; begin += kMaxColumnTile) {
      Fetched fetched;
      fetch_first(rows, begin, a.columns, lane % LANES, fetched);
      if (pass == 0 || a.columns > kMaxColumnTile) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        load_vector(x + ulong(pair) * a.columns, begin, a.columns, quads, sums, tid, threads.x);
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
      add_rows(rows, a.columns, begin, lane % LANES, quads, sums, fetched, total);
    }
    const float v = sum_lanes(total, lane);
    const uint row = first + lane % LANES;
    if (lane % LANES < kRows && row < a.rows) {
      out[ulong(pair) * a.rows + row] = v;
    }
  }
}
