// The seam between the blocks and the instruction sets: what a block does to rows of floats, as a table of functions.
//
// Every function gives each output element the same bits whatever else is in the call, so that blocks may cut their
// work at any row, head or token. NaN goes through, and so does infinity, or becomes NaN.
#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/integers.h"
#include "backend/cpu/matmul.h"

namespace swiftlet {

// One value head of the gated delta rule, for `tokens` tokens. Rows of q, k and v are `stride` floats apart.
//   S *= decay[t];  S += beta[t] * (v[t] - S k[t]) k[t]^T;  out[t] = S q[t]
struct DeltaRule {
  float* state;  // S [value_dim, key_dim]
  int64_t value_dim, key_dim;
  int tokens;
  const float *q, *k, *v;
  int64_t stride;
  const float *decay, *beta;  // of token t at [t * gate_stride]
  int64_t gate_stride;
  float* out;  // [tokens, value_dim], rows out_stride apart
  int64_t out_stride;
};

constexpr int kMaxConvKernel = 64;
constexpr int kMaxHeadDim = 512;     // of attention
constexpr int kQueryBlock = 32;      // queries that share a read of keys and values
constexpr int kPositionBlock = 128;  // positions whose softmax is one step

// A block of positions in the cache's type, from the first KV head that is asked for on. Rows are `stride` elements
// apart, heads follow each other.
struct KvBlock {
  KvType type;
  const void *keys, *values;
  const float *key_scales, *value_scales;  // Int8: of row j and head h at [j * scale_stride + h]
  int64_t stride, scale_stride;
  int positions;  // that the first token sees, 1 .. kPositionBlock; each token sees one more than the one before it
};

// Attention over one block, before the division: m = max of the scores, l = sum of exp(score - m),
// out = sum of exp(score - m) * value, for the queries of `tokens` tokens that follow each other: `heads` of each of
// `kv_heads` KV heads, at most kQueryBlock in all. m and l are [tokens, kv_heads, heads], out has head_dim of each.
struct Attend {
  const float* q;  // [tokens, kv_heads, heads, head_dim], tokens token_stride and heads q_stride apart
  int64_t q_stride, token_stride;
  int tokens, kv_heads, heads;
  int64_t head_dim;
  float scale;  // score = scale * dot(q, key)
};

// Products in whole numbers, of the matrices of which takes_integers() holds; nulls where there are none.
struct IntegerOps {
  PackFn pack;
  IntegerMatmulFn matmul;
};

struct CpuOps {
  const char* name;
  MatmulFn matmul;
  IntegerOps integers;
  // out = x / sqrt(mean(x^2) + eps) * weight; out may be x
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* out);
  // x = x / sqrt(mean(x^2) + eps) * weight * silu(z)
  void (*gated_rms_norm)(float* x, const float* weight, const float* z, int64_t n, float eps);
  // x = x / sqrt(sum(x^2) + 1e-6) * scale
  void (*l2_norm)(float* x, int64_t n, float scale);
  // x = silu(x) = x * sigmoid(x)
  void (*silu)(float* x, int64_t n);
  // gate = silu(gate) * up
  void (*silu_mul)(float* gate, const float* up, int64_t n);
  // x = x * sigmoid(gate)
  void (*sigmoid_mul)(float* x, const float* gate, int64_t n);
  // y = y + scale * x, each product and each sum rounded
  void (*add_scaled)(float* y, const float* x, float scale, int64_t n);
  void (*softmax)(float* x, int64_t n);
  // Causal depthwise convolution and silu of `channels` channels: row t becomes silu(sum_j w[c, j] * row[t + j][c]).
  // Rows are `stride` apart; tokens + kernel - 1 of them are read. kernel is 1 .. kMaxConvKernel.
  void (*convolve)(float* rows, int64_t stride, int tokens, const float* w, int kernel, int64_t channels);
  void (*delta_rule)(const DeltaRule& rule);
  void (*attend)(const Attend& query, const KvBlock& block, float* m, float* l, float* out);
};

extern const CpuOps reference_ops;
// Each exists where the compiler targets its architecture.
extern const CpuOps avx2_ops, avxvnni_ops, avx512_ops, avx512vnni_ops, amx_ops, neon_ops, dotprod_ops;

}  // namespace swiftlet
