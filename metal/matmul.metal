#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
#include "quantized.h"

constant uint MATRIX [[function_constant(8)]];

// Both tiles lie by columns: element (row, column) at [column * kStride + row], so that four rows are one float4.
enum : uint { kStride = kTile + 4 };

// kTile rows of x (by way of `rows`, if it is not null), columns begin .. begin + 31; beyond the ends: zeros.
inline void load_x(const device float* x, const threadgroup uint* rows, uint count, ulong stride, uint begin, uint columns,
                   threadgroup float* tile, uint tid) {
  for (uint i = tid; i < kTile * kPiece; i += 128) {
    const uint row = i / kPiece;
    const uint column = i % kPiece;
    const bool inside = row < count && begin + column < columns;
    tile[column * kStride + row] = inside ? x[rows[min(row, count - 1)] * stride + begin + column] : 0.0f;
  }
}

// kTile rows of the matrix, decoded: each thread half a piece of one row.
inline void load_matrix(const device uchar* base, MatrixPlace place, uint first, uint rows, uint piece, uint columns,
                        threadgroup float* tile, uint tid) {
  const uint row = tid / 2;
  const uint half_piece = tid % 2 * 16;
  const MatrixRow r = matrix_row(base, place, min(first + row, rows - 1), columns);
  if (CODEC == kPlain) {
    for (uint j = half_piece; j < half_piece + 16; j++) {
      const uint column = piece * kPiece + j;
      tile[j * kStride + row] = column < columns ? load_float(r.weight, column) : 0.0f;
    }
    return;
  }
  const Words words = load_words(r, piece, columns);
  const uint column = piece * kPiece + half_piece;
  const uint group = min(column, columns - 1) / GROUP;  // columns are whole groups
  const float scale = group_scale(r, group);
  const float bias = group_bias(r, group);
#pragma unroll
  for (uint j = 0; j < 32; j++) {
    if (j / 16 == tid % 2) {
      const float v = fma(scale, code_value(code_at(words, j)), bias);
      tile[j * kStride + row] = piece * kPiece + j < columns ? v : 0.0f;
    }
  }
}

// The product of both tiles, added to this thread's outputs: tokens 8 * (tid / 16) .. + 7, rows 4 * (tid % 16) .. + 3.
struct Outputs {
  float4 v[8];
};

inline void multiply(const threadgroup float* xs, const threadgroup float* ws, thread Outputs& out, uint tid) {
  const threadgroup float* xp = xs + tid / 16 * 8;
  const threadgroup float* wp = ws + tid % 16 * 4;
#pragma unroll
  for (uint c = 0; c < kPiece; c++) {
    const float4 x0 = *(const threadgroup float4*)(xp + c * kStride);
    const float4 x1 = *(const threadgroup float4*)(xp + c * kStride + 4);
    const float4 w = *(const threadgroup float4*)(wp + c * kStride);
    float x[8];
    x[0] = x0.x;
    x[1] = x0.y;
    x[2] = x0.z;
    x[3] = x0.w;
    x[4] = x1.x;
    x[5] = x1.y;
    x[6] = x1.z;
    x[7] = x1.w;
#pragma unroll
    for (uint t = 0; t < 8; t++) {
      out.v[t].x = fma(x[t], w.x, out.v[t].x);
      out.v[t].y = fma(x[t], w.y, out.v[t].y);
      out.v[t].z = fma(x[t], w.z, out.v[t].z);
      out.v[t].w = fma(x[t], w.w, out.v[t].w);
    }
  }
}

// y[t] = W x[t] (+ bias) for up to four matrices that share their input and encoding, in tiles of kTile tokens and rows.
// kListed: experts' matrices, for the tokens of some (token, place) pairs, by tiles of one expert.
// Grid: (row tiles of the matrices one after another, token tiles); 128 threads.
kernel void matmul(const device uchar* arena [[buffer(0)]],
                   const device float* x [[buffer(1)]],             // [T or pairs, columns], x_stride apart
                   device float* y [[buffer(2)]],                   // [T or pairs, ..], y_stride apart
                   const device Slot* slots [[buffer(3)]],          // kListed: of each tile
                   const device ExpertTile* tiles [[buffer(4)]],    // kListed
                   const device uint* pair_tokens [[buffer(5)]],    // kListed: token of each pair
                   constant MatmulArgs& a [[buffer(6)]],
                   uint3 tg [[threadgroup_position_in_grid]],
                   uint tid [[thread_index_in_threadgroup]],
                   uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float4 x_quads[kPiece * kStride / 4];  // aligned for multiply()
  threadgroup float4 w_quads[kPiece * kStride / 4];
  threadgroup float* xs = (threadgroup float*)x_quads;
  threadgroup float* ws = (threadgroup float*)w_quads;
  threadgroup uint x_rows[kTile];
  uint group = tg.x;
  uint m = 0;
  while (group >= a.matrices[m].groups) {
    group -= a.matrices[m].groups;
    m++;
  }
  const uint first_row = group * kTile;
  const uint rows = a.matrices[m].rows;

  const device uchar* base = arena;
  uint first = tg.y * kTile;  // of x and y
  uint count = min(a.tokens - first, uint(kTile));
  if (POOLED != kArena) {
    base = slots[tg.y].base;
    first = tiles[tg.y].first;
    count = tiles[tg.y].count;
  }
  if (tid < kTile) {
    const uint row = first + min(tid, count - 1);
    x_rows[tid] = POOLED != kArena && a.gather != 0 ? pair_tokens[row] : row;
  }

  Outputs out;
#pragma unroll
  for (uint t = 0; t < 8; t++) {
    out.v[t] = float4(0.0f);
  }
  // MATRIX: a SIMD group has 32 tokens and 32 rows.
  const uint token0 = simd / 2 * 32;
  const uint row0 = simd % 2 * 32;
  simdgroup_float8x8 acc[4][4];
  if (MATRIX != 0) {
#pragma unroll
    for (uint i = 0; i < 4; i++) {
#pragma unroll
      for (uint j = 0; j < 4; j++) {
        acc[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      }
    }
  }

  for (uint begin = 0; begin < a.columns; begin += kPiece) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    load_x(x, x_rows, count, a.x_stride, begin, a.columns, xs, tid);
    load_matrix(base, a.matrices[m].place, first_row, rows, begin / kPiece, a.columns, ws, tid);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (MATRIX != 0) {
#pragma unroll
      for (uint c = 0; c < kPiece; c += 8) {
        simdgroup_float8x8 xm[4];
        simdgroup_float8x8 wm[4];
#pragma unroll
        for (uint i = 0; i < 4; i++) {
          simdgroup_load(xm[i], xs + c * kStride + token0 + 8 * i, kStride, ulong2(0, 0), true);
          simdgroup_load(wm[i], ws + c * kStride + row0 + 8 * i, kStride);
        }
#pragma unroll
        for (uint i = 0; i < 4; i++) {
#pragma unroll
          for (uint j = 0; j < 4; j++) {
            simdgroup_multiply_accumulate(acc[i][j], xm[i], wm[j], acc[i][j]);
          }
        }
      }
    } else {
      multiply(xs, ws, out, tid);
    }
  }

  device float* to = y + ulong(first) * a.y_stride + a.matrices[m].out;
  const bool biased = a.matrices[m].bias != kNoBias;
  const device float* bias = (const device float*)(arena + (biased ? a.matrices[m].bias : 0));
  if (MATRIX != 0) {
    // By way of threadgroup memory, 8 tokens of each SIMD group at a time, since tiles at the edges are cut.
    threadgroup float* mine = xs + simd * 8 * 32;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
      for (uint j = 0; j < 4; j++) {
        simdgroup_store(acc[i][j], mine + 8 * j, 32);
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      for (uint e = tid; e < 4 * 8 * 32; e += 128) {
        const uint from = e / 256;
        const uint token = from / 2 * 32 + 8 * i + e / 32 % 8;
        const uint row = first_row + from % 2 * 32 + e % 32;
        if (token < count && row < rows) {
          to[ulong(token) * a.y_stride + row] = biased ? xs[e] + bias[row] : xs[e];
        }
      }
    }
    return;
  }
  const uint row = first_row + tid % 16 * 4;
#pragma unroll
  for (uint t = 0; t < 8; t++) {
    const uint token = tid / 16 * 8 + t;
#pragma unroll
    for (uint j = 0; j < 4; j++) {
      if (token < count && row + j < rows) {
        const float v = out.v[t][j];
        to[ulong(token) * a.y_stride + row + j] = biased ? v + bias[row + j] : v;
      }
    }
  }
}
