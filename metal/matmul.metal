#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
#include "quantized.h"

constant uint MATRIX [[function_constant(8)]];

// Both tiles lie by columns: element (row, column) at [column * kStride + row], so that four rows are one float4.
enum : uint { kStride = kTile + 4 };

// What a thread brings to both tiles: it is on its way while the tiles before are multiplied.
struct Piece {
  float x[kTile * kPiece / 128];
  Words words;        // of half a row's piece
  float scale, bias;
  float plain[kPiece / 2];
};

// Columns begin .. begin + 31 of kTile rows of x (those of `rows`) and of kTile rows of the matrix. Beyond the ends:
// zeros.
inline void load_piece(const device float* x, const threadgroup uint* rows, uint count, ulong stride,
                       const device uchar* base, MatrixPlace place, uint first, uint matrix_rows, uint begin,
                       uint columns, uint tid, thread Piece& piece) {
#pragma unroll
  for (uint i = 0; i < kTile * kPiece / 128; i++) {
    const uint row = i * (128 / kPiece) + tid / kPiece;
    const uint column = begin + tid % kPiece;
    piece.x[i] = row < count && column < columns ? x[rows[min(row, count - 1)] * stride + column] : 0.0f;
  }
  // Each thread half a piece of one row of the matrix.
  const MatrixRow r = matrix_row(base, place, min(first + tid / 2, matrix_rows - 1), columns);
  const uint column = begin + tid % 2 * (kPiece / 2);
  if (CODEC == kPlain) {
#pragma unroll
    for (uint j = 0; j < kPiece / 2; j++) {
      piece.plain[j] = column + j < columns ? load_float(r.weight, column + j) : 0.0f;
    }
  } else {
    piece.words = load_words(r, begin / kPiece, columns);
    const uint group = min(column, columns - 1) / GROUP;  // columns are whole groups
    piece.scale = group_scale(r, group);
    piece.bias = group_bias(r, group);
  }
}

inline void store_piece(Piece piece, uint begin, uint columns, threadgroup float* xs, threadgroup float* ws, uint tid) {
#pragma unroll
  for (uint i = 0; i < kTile * kPiece / 128; i++) {
    xs[tid % kPiece * kStride + i * (128 / kPiece) + tid / kPiece] = piece.x[i];
  }
#pragma unroll
  for (uint j = 0; j < kPiece; j++) {
    if (j / (kPiece / 2) == tid % 2) {
      float v = 0.0f;
      if (CODEC == kPlain) {
        v = piece.plain[j % (kPiece / 2)];
      } else if (begin + j < columns) {
        v = fma(piece.scale, code_value(code_at(piece.words, j)), piece.bias);
      }
      ws[j * kStride + tid / 2] = v;
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

  threadgroup_barrier(mem_flags::mem_threadgroup);  // x_rows
  const MatrixPlace place = a.matrices[m].place;
  Piece piece;
  load_piece(x, x_rows, count, a.x_stride, base, place, first_row, rows, 0, a.columns, tid, piece);
  for (uint begin = 0; begin < a.columns; begin += kPiece) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    store_piece(piece, begin, a.columns, xs, ws, tid);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (begin + kPiece < a.columns) {
      load_piece(x, x_rows, count, a.x_stride, base, place, first_row, rows, begin + kPiece, a.columns, tid, piece);
    }
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
