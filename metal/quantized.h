// Rows of weight matrices, as checkpoints store them (cpp/backend/matrix.h), decoded a piece of 32 columns at a time.
#pragma once
#include "kernel_args.h"

constant uint CODEC [[function_constant(0)]];
constant uint BITS [[function_constant(1)]];
constant uint GROUP [[function_constant(2)]];
constant uint DTYPE [[function_constant(3)]];
constant uint WIDE [[function_constant(4)]];

constant uint POOLED [[function_constant(6)]];

// A slot of the pool, in a table that kernels follow.
struct Slot {
  const device uchar* base;
};

// 2^(bits - 127); 0 means 2^-127, and 255 infinity.
inline float e8m0(uint bits) { return as_type<float>(bits == 0 ? 0x00400000u : bits << 23); }

// 4 bits: sign, 2 bits of exponent, 1 of mantissa.
inline float e2m1(uint bits) {
  const uint exponent = (bits >> 1) & 3;
  const uint mantissa = bits & 1;
  const float magnitude =
      exponent == 0 ? 0.5f * float(mantissa) : as_type<float>((exponent + 126) << 23 | mantissa << 22);
  return bits & 8 ? -magnitude : magnitude;
}

// 8 bits: sign, 4 bits of exponent, 3 of mantissa; no infinity, no NaN.
inline float e4m3(uint bits) {
  const uint exponent = (bits >> 3) & 15;
  const uint mantissa = bits & 7;
  const float magnitude =
      exponent == 0 ? float(mantissa) * (1.0f / 512.0f) : as_type<float>((exponent + 120) << 23 | mantissa << 20);
  return bits & 128 ? -magnitude : magnitude;
}

// 4 bytes at any address.
inline uint load_bytes(const device uchar* p) {
  return uint(p[0]) | uint(p[1]) << 8 | uint(p[2]) << 16 | uint(p[3]) << 24;
}

// Element `index` of an array of f32, f16 or bf16 (DTYPE), as it is stored: to compute with it is to wait for it.
inline uint load_bits(const device uchar* array, ulong index) {
  if (DTYPE == kF32) {
    return WIDE != 0 ? ((const device uint*)array)[index] : load_bytes(array + 4 * index);
  }
  return WIDE != 0 ? uint(((const device ushort*)array)[index])
                   : uint(array[2 * index]) | uint(array[2 * index + 1]) << 8;
}
inline float float_of(uint bits) {
  if (DTYPE == kF16) {
    return float(as_type<half>(ushort(bits)));
  }
  return as_type<float>(DTYPE == kF32 ? bits : bits << 16);
}
inline float load_float(const device uchar* array, ulong index) { return float_of(load_bits(array, index)); }

// Bytes of `columns` codes of a row, and of its scales.
inline ulong weight_bytes(uint columns) {
  const uint bits = CODEC == kPlain ? (DTYPE == kF32 ? 32 : 16) : BITS;
  return ulong(columns) * bits / 8;
}
inline ulong scale_bytes(uint columns) {
  if (CODEC == kPlain) {
    return 0;
  }
  return ulong(columns / GROUP) * (DTYPE == kF32 ? 4 : DTYPE == kU8 ? 1 : 2);
}

// One row of a matrix, wherever it lies.
struct MatrixRow {
  const device uchar* weight;
  const device uchar* scales;
  const device uchar* biases;
};

inline MatrixRow matrix_row(const device uchar* base, MatrixPlace place, uint row, uint columns) {
  MatrixRow r;
  r.weight = base + place.weight + row * weight_bytes(columns);
  r.scales = base + place.scales + row * scale_bytes(columns);
  r.biases = base + place.biases + row * scale_bytes(columns);
  return r;
}

// What multiplies the codes of group `group`, and (affine) what is added to them, as they are stored.
inline uint scale_bits(MatrixRow r, uint group) {
  if (CODEC == kPlain) {
    return 0;
  }
  return CODEC == kAffine ? load_bits(r.scales, group) : uint(r.scales[group]);
}
inline uint bias_bits(MatrixRow r, uint group) { return CODEC == kAffine ? load_bits(r.biases, group) : 0; }
inline float scale_of(uint bits) {
  if (CODEC == kAffine) {
    return float_of(bits);
  }
  if (CODEC == kNvFp4) {
    return e4m3(bits);
  }
  return CODEC == kPlain ? 1.0f : e8m0(bits);
}
inline float bias_of(uint bits) { return CODEC == kAffine ? float_of(bits) : 0.0f; }
inline float group_scale(MatrixRow r, uint group) { return scale_of(scale_bits(r, group)); }
inline float group_bias(MatrixRow r, uint group) { return bias_of(bias_bits(r, group)); }

// The words that hold the codes of 32 columns: BITS of them.
struct Words {
  uint w[8];
};

// Those at p, where a row has `columns` more. Beyond the row there are zeros.
inline Words words_at(const device uchar* p, uint columns) {
  Words words;
  if (WIDE != 0) {
    if (BITS == 4) {
      const uint4 v = *(const device uint4*)p;
      words.w[0] = v.x;
      words.w[1] = v.y;
      words.w[2] = v.z;
      words.w[3] = v.w;
    } else if (BITS == 8) {
      const uint4 v = *(const device uint4*)p;
      const uint4 u = *(const device uint4*)(p + 16);
      words.w[0] = v.x;
      words.w[1] = v.y;
      words.w[2] = v.z;
      words.w[3] = v.w;
      words.w[4] = u.x;
      words.w[5] = u.y;
      words.w[6] = u.z;
      words.w[7] = u.w;
    } else if (BITS == 2) {
      const uint2 v = *(const device uint2*)p;
      words.w[0] = v.x;
      words.w[1] = v.y;
    } else {
#pragma unroll
      for (uint i = 0; i < 8; i++) {
        if (i < BITS) {
          words.w[i] = ((const device uint*)p)[i];
        }
      }
    }
  } else {
    const uint bytes = min(columns, uint(kPiece)) * BITS / 8;
#pragma unroll
    for (uint i = 0; i < 8; i++) {
      if (i < BITS) {
        uint word = 0;
        for (uint b = 0; b < 4; b++) {
          word |= 4 * i + b < bytes ? uint(p[4 * i + b]) << (8 * b) : 0;
        }
        words.w[i] = word;
      }
    }
  }
  return words;
}

// Those of columns 32 * piece .. + 31.
inline Words load_words(MatrixRow r, uint piece, uint columns) {
  return words_at(r.weight + ulong(piece) * (4 * BITS), columns - piece * kPiece);
}

// Code j of a piece.
inline uint code_at(Words words, uint j) {
  const uint bit = j * BITS;
  const uint word = bit / 32;
  const uint shift = bit % 32;
  uint code = words.w[word] >> shift;
  if (shift + BITS > 32) {
    code |= words.w[min(word + 1, 7u)] << (32 - shift);
  }
  return code & ((1u << BITS) - 1);
}

// An integer below 2^23 as a float: put into the mantissa of 2^23, of which it is the distance. A conversion does the
// same at a fraction of the speed, where the GPU has few units for it (NVIDIA: a quarter of the rate at best).
inline float to_float(uint n) { return as_type<float>(n | 0x4b000000u) - 8388608.0f; }

// What a code stands for, before the scale.
inline float code_value(uint code) {
  if (CODEC == kAffine) {
    return to_float(code);
  }
  return CODEC == kMxFp8 ? e4m3(code) : e2m1(code);
}

// Value of column `column`, one at a time: for kernels that don't repeat it.
inline float weight_at(MatrixRow r, uint column, uint columns) {
  if (CODEC == kPlain) {
    return load_float(r.weight, column);
  }
  const Words words = load_words(r, column / kPiece, columns);
  const uint group = column / GROUP;
  return group_scale(r, group) * code_value(code_at(words, column % kPiece)) + group_bias(r, group);
}
