// The arguments of the kernels: one struct each, as shaders and C++ both see it, and the numbers they agree on.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
namespace swiftlet::gpu {
using uint = uint32_t;
using ulong = uint64_t;
#endif

// Function constants, by index. quantized.h
enum : uint {
  kConstCodec = 0,     // Codec
  kConstBits = 1,      // of a code, 0 for plain values
  kConstGroup = 2,     // columns that share a scale, 0 for plain values
  kConstDtype = 3,     // Dtype of the scales, or of plain values
  kConstWide = 4,      // 1: every row and tensor begins at a multiple of 16 bytes, columns % 32 == 0
  kConstLanes = 5,     // lanes that share a row: 8, 16 or 32
  kConstPooled = 6,    // Pooled: where the matrix lies
  kConstKvType = 7,    // KvType of the cache
  kConstMatrix = 8,    // 1: multiply with simdgroup_matrix
  kConstResidual = 9,  // Residual: what norm adds to x first
};

// Values of kConstCodec, as swiftlet::Codec.
enum : uint {
  kPlain = 0,
  kAffine = 1,
  kMxFp4 = 2,
  kMxFp8 = 3,
  kNvFp4 = 4,
};
// Values of kConstDtype.
enum : uint {
  kF32 = 0,
  kF16 = 1,
  kBf16 = 2,
  kU8 = 3,
};
// Values of kConstKvType, as swiftlet::KvType.
enum : uint {
  kKvF32 = 0,
  kKvF16 = 1,
  kKvInt8 = 2,
};
// Values of kConstPooled.
enum : uint {
  kArena = 0,   // with the resident weights
  kRouted = 1,  // in the slots of a token's experts, of all (token, place) pairs in order
  kListed = 2,  // in slots that are listed, with the pairs or tiles they are for
};
// Values of kConstResidual.
enum : uint {
  kNone = 0,
  kAdd = 1,
  kExperts = 2,
};

// Where the pieces of a matrix [rows, columns] lie, in bytes from the start of its memory (the arena, or a slot).
struct MatrixPlace {
  ulong weight, scales, biases;
};

enum : uint {
  kMaxMatrices = 4,  // that one dispatch applies to the same input
};
enum : ulong {
  kNoBias = ~ulong(0),
};
enum : uint {
  kMaxColumnTile = 4096,  // columns of x that a threadgroup holds at once
  kPiece = 32,            // columns that are decoded together
  kRows = 2,              // of a matrix that a SIMD group works on at once
  kTile = 64,             // tokens and rows of a tile of the matrix product
  kQueryTile = 16,        // query rows of a tile of attention
  kMaxTop = 64,           // candidates that top_logits finds
  kMaxExpertsPerToken = 32,
  kMaxExperts = 1024,
};

// copy.metal
struct CopyArgs {
  ulong quads;  // of 16 bytes
};

// embed.metal
struct EmbedArgs {
  MatrixPlace place;
  uint columns;
};

// norm.metal
struct NormArgs {
  uint columns;
  uint experts_per_token;  // kExperts
  uint gate_stride;        // kExperts: between the tokens' gates
  float eps;
};

// matvec.metal
struct ProjectedMatrix {
  MatrixPlace place;
  ulong bias;  // f32 [rows], or kNoBias
  uint rows;
  uint groups;  // threadgroups that work on it
  uint out;     // of its first element in a row of y
};
struct MatvecArgs {
  ProjectedMatrix matrices[kMaxMatrices];
  uint columns;
  uint x_stride, y_stride;  // between tokens
  uint passes;              // of a SIMD group over its rows
};
struct GateUpArgs {
  MatrixPlace gate, up;
  uint rows, columns;
  uint x_stride;  // between tokens
  uint passes;
  uint experts_per_token;  // kRouted, kListed
};
struct DownArgs {
  MatrixPlace place;
  uint rows, columns;
  uint passes;
};

// matmul.metal
struct MatmulArgs {
  ProjectedMatrix matrices[kMaxMatrices];
  uint columns;
  uint tokens;  // kArena
  uint x_stride, y_stride;
  uint gather;  // kListed, 1: x rows are those of the pairs' tokens, 0: of the pairs
};
// Up to kTile tokens of one expert: pairs first .. first + count - 1.
struct ExpertTile {
  uint first, count;
};

// experts.metal
struct SiluMulArgs {
  uint columns;  // x [rows, 2, columns] to out [rows, columns]
};
struct SharedArgs {
  uint columns;
  uint gate_stride;
};
struct GatherArgs {
  uint columns;
  uint experts_per_token;
};

// delta_net.metal
struct DeltaPrepareArgs {
  uint key_heads, value_heads;
  uint key_dim, value_dim;  // of a head
  uint kernel_size;
  uint tokens;
  uint in_stride;  // of the projections: qkv at 0, then at `b` and `a`
  uint b, a;
};
struct ConvSaveArgs {
  uint channels;
  uint kernel_size;
  uint tokens;
  uint in_stride;
};
struct DeltaRuleArgs {
  uint key_heads, value_heads;
  uint key_dim, value_dim;
  uint tokens;
  uint z_stride, z;  // of the projections: where z lies
  uint norm;         // 1: a threadgroup holds its whole head, and normalises it
  float eps;
};

// attention.metal
struct AttentionStoreArgs {
  uint heads, kv_heads, head_dim, rotary_dim;
  uint stride;  // of the projections: q (query and gate of each head) at 0, then at `k` and `v`
  uint k, v;
  ulong position;
  float eps;
};
struct AttendArgs {
  uint heads, kv_heads, head_dim;
  uint stride;  // of q
  uint splits;  // that partial results have room for
  uint block;   // positions of a split, of a token at this chunk's first position
  ulong position;
  uint tokens;
  float scale;
};

// router.metal
struct RouterArgs {
  uint experts, experts_per_token;
  uint stride;
  uint normalise;  // norm_topk_prob
};

// head.metal
struct TopLogitsArgs {
  uint vocab;
  uint segment;  // logits that a threadgroup looks at
  uint segments;
  uint count;
};

#ifndef __METAL_VERSION__
}  // namespace swiftlet::gpu
#endif
