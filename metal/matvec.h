// Matrix times vector: how a threadgroup holds its vector, and how a SIMD group multiplies rows with it.
#pragma once
#include "activations.h"
#include "quantized.h"

constant uint LANES [[function_constant(5)]];

enum : uint { kTilePieces = kMaxColumnTile / kPiece };
// The vector lies by pieces: quad j of piece p at [j * kQuadStride + p], so that lanes, each on a piece of its own,
// read side by side. The stride is odd, so that writing meets no bank twice too often.
enum : uint { kQuadStride = kTilePieces + 1 };
enum : uint { kVectorQuads = 8 * kQuadStride };

// Brings columns begin .. of a vector into threadgroup memory, and the sum of each piece. Beyond the end: zeros.
// Codes of 4 bits are multiplied where they stand in their 16 bits, without a shift, so what stands beside them is
// divided by their place value (a power of two: exact).
inline void load_vector(const device float* x, uint begin, uint columns, threadgroup float4* quads,
                        threadgroup float* sums, uint tid, uint threads) {
  const uint pieces = min((columns - begin + kPiece - 1) / kPiece, uint(kTilePieces));
  const uint all = (pieces * 8 + 31) / 32 * 32;  // so that SIMD groups stay together
  for (uint i = tid; i < all; i += threads) {
    const uint column = begin + 4 * i;
    float4 v = float4(0.0f);
    if (WIDE != 0) {
      if (column < columns) {
        v = *(const device float4*)(x + column);
      }
    } else {
      v.x = column < columns ? x[column] : 0.0f;
      v.y = column + 1 < columns ? x[column + 1] : 0.0f;
      v.z = column + 2 < columns ? x[column + 2] : 0.0f;
      v.w = column + 3 < columns ? x[column + 3] : 0.0f;
    }
    float sum = (v.x + v.y) + (v.z + v.w);
    sum += simd_shuffle_xor(sum, 1);
    sum += simd_shuffle_xor(sum, 2);
    sum += simd_shuffle_xor(sum, 4);
    if (i % 8 == 0) {
      sums[i / 8] = sum;
    }
    if (CODEC == kAffine && BITS == 4) {
      v = v * float4(1.0f, 1.0f / 16.0f, 1.0f / 256.0f, 1.0f / 4096.0f);
    }
    quads[i % 8 * kQuadStride + i / 8] = v;
  }
}

// (code0, code1, code2, code3) . x of the four codes of 4 bits in the low half of a word.
inline float dot4(uint w, float4 x, float sum, uint two23) {
  sum = fma(to_float(w & 0xfu, two23), x.x, sum);
  sum = fma(to_float(w & 0xf0u, two23), x.y, sum);
  sum = fma(to_float(w & 0xf00u, two23), x.z, sum);
  return fma(to_float(w & 0xf000u, two23), x.w, sum);
}

struct RowSums {
  float s[kRows];
};

inline void clear(thread RowSums& sums) {
#pragma unroll
  for (uint i = 0; i < kRows; i++) {
    sums.s[i] = 0.0f;
  }
}

// Rows first .. first + kRows - 1 of a matrix. Those past the end repeat the last: no branch, so that all loads are in
// flight together.
struct Rows {
  MatrixRow r[kRows];
};

inline Rows rows_from(const device uchar* base, MatrixPlace place, uint first, uint rows, uint columns) {
  Rows result;
#pragma unroll
  for (uint i = 0; i < kRows; i++) {
    result.r[i] = matrix_row(base, place, min(first + i, rows - 1), columns);
  }
  return result;
}

// One piece of each of them, on its way while others are multiplied.
struct Fetched {
  Words words[kRows];
  float scale[kRows], second[kRows];  // kNvFp4 has two groups in a piece
  float bias[kRows];
};

inline void fetch(Rows rows, uint piece, uint columns, thread Fetched& f) {
#pragma unroll
  for (uint i = 0; i < kRows; i++) {
    f.words[i] = load_words(rows.r[i], piece, columns);
    if (CODEC == kNvFp4) {
      f.scale[i] = group_scale(rows.r[i], 2 * piece);
      f.second[i] = piece * kPiece + kPiece / 2 < columns ? group_scale(rows.r[i], 2 * piece + 1) : 0.0f;
    } else {
      f.scale[i] = group_scale(rows.r[i], piece * kPiece / GROUP);
      f.bias[i] = group_bias(rows.r[i], piece * kPiece / GROUP);
    }
  }
}

// Adds the products of a fetched piece with the vector's, which is the threadgroup's piece `at`.
inline void multiply_piece(thread Fetched& f, uint at, uint two23, const threadgroup float4* quads,
                           const threadgroup float* piece_sums, thread RowSums& sums) {
  float d0[kRows];
  float d1[kRows];
#pragma unroll
  for (uint i = 0; i < kRows; i++) {
    d0[i] = 0.0f;
    d1[i] = 0.0f;
  }
  if (CODEC == kAffine && BITS == 4) {
#pragma unroll
    for (uint j = 0; j < 4; j++) {
      const float4 low = quads[2 * j * kQuadStride + at];
      const float4 high = quads[(2 * j + 1) * kQuadStride + at];
#pragma unroll
      for (uint i = 0; i < kRows; i++) {
        d0[i] = dot4(f.words[i].w[j], low, d0[i], two23);
        d1[i] = dot4(f.words[i].w[j] >> 16, high, d1[i], two23);
      }
    }
  } else {
#pragma unroll
    for (uint j = 0; j < 8; j++) {
      const float4 x = quads[j * kQuadStride + at];
#pragma unroll
      for (uint i = 0; i < kRows; i++) {
        float d = code_value(code_at(f.words[i], 4 * j)) * x.x;
        d = fma(code_value(code_at(f.words[i], 4 * j + 1)), x.y, d);
        d = fma(code_value(code_at(f.words[i], 4 * j + 2)), x.z, d);
        d = fma(code_value(code_at(f.words[i], 4 * j + 3)), x.w, d);
        if (j < 4) {
          d0[i] += d;
        } else {
          d1[i] += d;
        }
      }
    }
  }
#pragma unroll
  for (uint i = 0; i < kRows; i++) {
    if (CODEC == kNvFp4) {
      sums.s[i] += fma(f.scale[i], d0[i], f.second[i] * d1[i]);
    } else {
      sums.s[i] += fma(f.scale[i], d0[i] + d1[i], f.bias[i] * piece_sums[at]);
    }
  }
}

inline float dot_plain(MatrixRow r, uint piece, uint at, uint columns, const threadgroup float4* quads) {
  float sum = 0.0f;
  const uint first = piece * kPiece;
#pragma unroll
  for (uint j = 0; j < 8; j++) {
    const float4 x = quads[j * kQuadStride + at];
    const uint c = first + 4 * j;
    if (WIDE != 0 || c + 3 < columns) {
      sum = fma(load_float(r.weight, c), x.x, sum);
      sum = fma(load_float(r.weight, c + 1), x.y, sum);
      sum = fma(load_float(r.weight, c + 2), x.z, sum);
      sum = fma(load_float(r.weight, c + 3), x.w, sum);
    } else {
      sum = c < columns ? fma(load_float(r.weight, c), x.x, sum) : sum;
      sum = c + 1 < columns ? fma(load_float(r.weight, c + 1), x.y, sum) : sum;
      sum = c + 2 < columns ? fma(load_float(r.weight, c + 2), x.z, sum) : sum;
    }
  }
  return sum;
}

// The first piece of a lane, before the vector is there.
inline void fetch_first(Rows rows, uint begin, uint columns, uint lane, thread Fetched& f) {
  if (CODEC != kPlain && begin + lane * kPiece < columns) {
    fetch(rows, begin / kPiece + lane, columns, f);
  }
}

// Adds to `sums` what columns begin .. contribute. `f`: from fetch_first.
inline void add_rows(Rows rows, uint columns, uint begin, uint lane, uint two23, const threadgroup float4* quads,
                     const threadgroup float* piece_sums, thread Fetched& f, thread RowSums& sums) {
  const uint pieces = min((columns - begin + kPiece - 1) / kPiece, uint(kTilePieces));
  if (CODEC == kPlain) {
    for (uint at = lane; at < pieces; at += LANES) {
#pragma unroll
      for (uint i = 0; i < kRows; i++) {
        sums.s[i] += dot_plain(rows.r[i], begin / kPiece + at, at, columns, quads);
      }
    }
    return;
  }
  Fetched next;
  for (uint at = lane; at < pieces; at += 2 * LANES) {  // by twos, so that nothing moves from `next` to `f`
    const uint second = at + LANES;
    if (second < pieces) {
      fetch(rows, begin / kPiece + second, columns, next);
    }
    multiply_piece(f, at, two23, quads, piece_sums, sums);
    if (second + LANES < pieces) {
      fetch(rows, begin / kPiece + second + LANES, columns, f);
    }
    if (second < pieces) {
      multiply_piece(next, second, two23, quads, piece_sums, sums);
    }
  }
}

// The sum over the LANES lanes that share a row.
inline float sum_lanes(float v) {
  v += simd_shuffle_xor(v, 1);
  v += simd_shuffle_xor(v, 2);
  v += simd_shuffle_xor(v, 4);
  if (LANES > 8) {
    v += simd_shuffle_xor(v, 8);
  }
  if (LANES > 16) {
    v += simd_shuffle_xor(v, 16);
  }
  return v;
}
