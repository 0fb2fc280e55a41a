// Matrix times vector: how a threadgroup holds its vector, and how a SIMD group multiplies rows with it.
#pragma once
#include "activations.h"
#include "quantized.h"

constant uint LANES [[function_constant(5)]];

enum : uint { kTilePieces = kMaxColumnTile / kPiece };
// The vector lies by pieces: quad j of piece p at [j * kQuadStride + p], so that lanes, each on a piece of its own, read
// side by side. The stride is odd, so that writing meets no bank twice too often.
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
inline float dot4(uint w, float4 x, float sum) {
  sum = fma(float(w & 0xfu), x.x, sum);
  sum = fma(float(w & 0xf0u), x.y, sum);
  sum = fma(float(w & 0xf00u), x.z, sum);
  return fma(float(w & 0xf000u), x.w, sum);
}

// Piece `piece` of a row times the same piece of the vector, which is the threadgroup's piece `at`.
inline float dot_words(MatrixRow r, Words words, uint piece, uint at, const threadgroup float4* quads,
                       const threadgroup float* sums) {
  if (CODEC == kAffine && BITS == 4) {
    float d0 = 0.0f;
    float d1 = 0.0f;
#pragma unroll
    for (uint j = 0; j < 4; j++) {
      d0 = dot4(words.w[j], quads[2 * j * kQuadStride + at], d0);
      d1 = dot4(words.w[j] >> 16, quads[(2 * j + 1) * kQuadStride + at], d1);
    }
    const uint group = piece * kPiece / GROUP;
    return fma(group_scale(r, group), d0 + d1, group_bias(r, group) * sums[at]);
  }
  float d0 = 0.0f;
  float d1 = 0.0f;
#pragma unroll
  for (uint j = 0; j < 8; j++) {
    const float4 x = quads[j * kQuadStride + at];
    float d = code_value(code_at(words, 4 * j)) * x.x;
    d = fma(code_value(code_at(words, 4 * j + 1)), x.y, d);
    d = fma(code_value(code_at(words, 4 * j + 2)), x.z, d);
    d = fma(code_value(code_at(words, 4 * j + 3)), x.w, d);
    if (j < 4) {
      d0 += d;
    } else {
      d1 += d;
    }
  }
  if (CODEC == kNvFp4) {  // groups of 16; the second may lie beyond the row, where the vector is zero
    const float second = d1 == 0.0f ? 0.0f : group_scale(r, 2 * piece + 1);
    return fma(group_scale(r, 2 * piece), d0, second * d1);
  }
  const uint group = piece * kPiece / GROUP;
  return fma(group_scale(r, group), d0 + d1, group_bias(r, group) * sums[at]);
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

struct RowSums {
  float s[kRows];
};

// Adds to `sums` what columns begin .. contribute to rows first .. first + kRows - 1, of which those past the end repeat
// the last: no branch, so that all loads are in flight together.
inline void add_rows(const device uchar* base, MatrixPlace place, uint first, uint rows, uint columns, uint begin,
                     uint lane, const threadgroup float4* quads, const threadgroup float* piece_sums,
                     thread RowSums& sums) {
  const uint pieces = min((columns - begin + kPiece - 1) / kPiece, uint(kTilePieces));
  MatrixRow r[kRows];
#pragma unroll
  for (uint i = 0; i < kRows; i++) {
    r[i] = matrix_row(base, place, min(first + i, rows - 1), columns);
  }
  for (uint at = lane; at < pieces; at += LANES) {
    const uint piece = begin / kPiece + at;
    if (CODEC == kPlain) {
#pragma unroll
      for (uint i = 0; i < kRows; i++) {
        sums.s[i] += dot_plain(r[i], piece, at, columns, quads);
      }
    } else {
      Words words[kRows];
#pragma unroll
      for (uint i = 0; i < kRows; i++) {
        words[i] = load_words(r[i], piece, columns);
      }
#pragma unroll
      for (uint i = 0; i < kRows; i++) {
        sums.s[i] += dot_words(r[i], words[i], piece, at, quads, piece_sums);
      }
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
