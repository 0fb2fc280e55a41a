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
enum : uint { kVectorLoads = 4 };  // of a thread at once

// Brings columns begin .. of a vector into threadgroup memory, and the sum of each piece. Beyond the end: zeros.
// Codes of 4 bits are multiplied as small_halves are, so the vector is multiplied by what these are divided by.
inline void load_vector(const device float* x, uint begin, uint columns, threadgroup float4* quads,
                        threadgroup float* sums, uint tid, uint threads) {
  const uint pieces = min((columns - begin + kPiece - 1) / kPiece, uint(kTilePieces));
  const uint all = (pieces * 8 + 31) / 32 * 32;  // so that SIMD groups stay together
  for (uint first = tid; first < all; first += kVectorLoads * threads) {
    float4 loaded[kVectorLoads];  // on their way together
#pragma unroll
    for (uint n = 0; n < kVectorLoads; n++) {
      const uint column = begin + 4 * (first + n * threads);
      loaded[n] = float4(0.0f);
      if (WIDE != 0) {
        if (column < columns) {
          loaded[n] = *(const device float4*)(x + column);
        }
      } else {
        loaded[n].x = column < columns ? x[column] : 0.0f;
        loaded[n].y = column + 1 < columns ? x[column + 1] : 0.0f;
        loaded[n].z = column + 2 < columns ? x[column + 2] : 0.0f;
        loaded[n].w = column + 3 < columns ? x[column + 3] : 0.0f;
      }
    }
#pragma unroll
    for (uint n = 0; n < kVectorLoads; n++) {
      const uint i = first + n * threads;
      if (i >= all) {
        break;
      }
      float4 v = loaded[n];
      float sum = (v.x + v.y) + (v.z + v.w);
      sum += simd_shuffle_xor(sum, 1);
      sum += simd_shuffle_xor(sum, 2);
      sum += simd_shuffle_xor(sum, 4);
      if (i % 8 == 0) {
        sums[i / 8] = sum;
      }
      if (CODEC == kAffine && BITS == 4) {
        v = v * float4(16777216.0f, 1048576.0f, 16777216.0f, 1048576.0f);
      }
      quads[i % 8 * kQuadStride + i / 8] = v;
    }
  }
}

// Codes of 4 bits in the two halves of a word, as floats and divided by their place value and by 2^24: an integer below
// 2^10 is the half, one without an exponent, that has its bits. Nothing is rounded.
inline float2 small_halves(uint codes) { return float2(as_type<half2>(codes)); }

// What the 8 codes of a word contribute to the sums of the first four columns and of the last four.
inline void dot8(uint w, float4 low, float4 high, thread float& d0, thread float& d1) {
  const float2 c04 = small_halves(w & 0x000f000fu);
  const float2 c15 = small_halves(w & 0x00f000f0u);
  const float2 c26 = small_halves(w >> 8 & 0x000f000fu);
  const float2 c37 = small_halves(w >> 8 & 0x00f000f0u);
  d0 = fma(c37.x, low.w, fma(c26.x, low.z, fma(c15.x, low.y, fma(c04.x, low.x, d0))));
  d1 = fma(c37.y, high.w, fma(c26.y, high.z, fma(c15.y, high.y, fma(c04.y, high.x, d1))));
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

// Rows that a lane works on together, each from the lane's first piece on. Its pieces are LANES apart.
struct Rows {
  MatrixRow r[kRows];
};

inline void advance(thread MatrixRow& r, uint pieces) {
  if (CODEC != kPlain) {
    r.weight += weight_bytes(pieces * kPiece);
    r.scales += scale_bytes(pieces * kPiece);
    r.biases += scale_bytes(pieces * kPiece);
  }
}

inline MatrixRow row_from(const device uchar* base, MatrixPlace place, uint row, uint columns, uint lane) {
  MatrixRow r = matrix_row(base, place, row, columns);
  advance(r, lane);
  return r;
}

// Rows first .. first + kRows - 1 of a matrix. Those past the end repeat the last: no branch, so that all loads are in
// flight together.
inline Rows rows_from(const device uchar* base, MatrixPlace place, uint first, uint rows, uint columns, uint lane) {
  Rows result;
#pragma unroll
  for (uint i = 0; i < kRows; i++) {
    result.r[i] = row_from(base, place, min(first + i, rows - 1), columns, lane);
  }
  return result;
}

// One piece of each of them, as it is stored, on its way while others are multiplied.
struct Fetched {
  Words words[kRows];
  uint scale[kRows], second[kRows];  // kNvFp4 has two groups in a piece
  uint bias[kRows];
};

// The piece `times` * LANES pieces on, of whose row there are `left` columns more.
inline void fetch(Rows rows, uint times, uint left, thread Fetched& f) {
#pragma unroll
  for (uint i = 0; i < kRows; i++) {
    MatrixRow r = rows.r[i];
    advance(r, times * LANES);
    f.words[i] = words_at(r.weight, left);
    f.scale[i] = scale_bits(r, 0);
    if (CODEC == kNvFp4) {
      f.second[i] = left > kPiece / 2 ? scale_bits(r, 1) : 0;
    }
    f.bias[i] = bias_bits(r, 0);
  }
}

// Adds the products of a fetched piece with the vector's, which is the threadgroup's piece `at`.
inline void multiply_piece(thread Fetched& f, uint at, const threadgroup float4* quads,
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
        dot8(f.words[i].w[j], low, high, d0[i], d1[i]);
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
      sums.s[i] += fma(scale_of(f.scale[i]), d0[i], scale_of(f.second[i]) * d1[i]);
    } else {
      sums.s[i] += fma(scale_of(f.scale[i]), d0[i] + d1[i], bias_of(f.bias[i]) * piece_sums[at]);
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
    fetch(rows, 0, columns - begin - lane * kPiece, f);
  }
}

// Adds to `sums` what columns begin .. contribute, and leaves `rows` behind them. `f`: from fetch_first.
inline void add_rows(thread Rows& rows, uint columns, uint begin, uint lane, const threadgroup float4* quads,
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
      fetch(rows, 1, columns - begin - second * kPiece, next);
    }
    multiply_piece(f, at, quads, piece_sums, sums);
    if (second + LANES < pieces) {
      fetch(rows, 2, columns - begin - (second + LANES) * kPiece, f);
    }
    if (second < pieces) {
      multiply_piece(next, second, quads, piece_sums, sums);
    }
#pragma unroll
    for (uint i = 0; i < kRows; i++) {
      advance(rows.r[i], 2 * LANES);
    }
  }
}

// The sums over the LANES lanes that share rows: lane i of them gets that of row i % kRows. The first steps add two
// rows at once, each in half of the lanes.
inline float sum_lanes(RowSums sums, uint lane) {
  const bool odd = lane % 2 != 0;
  float v = odd ? sums.s[1] : sums.s[0];
  v += simd_shuffle_xor(odd ? sums.s[0] : sums.s[1], 1);
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
