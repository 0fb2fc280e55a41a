// The blocks of a layer on the CPU, as functions over what they share.
//
// All threads work on one block at a time, each on its own rows, heads or tokens; no sum is split between threads other
// than at fixed places. Chunks go through in tiles of kTokenTile tokens, so that scratch stays small.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/thread_pool.h"
#include "backend/weights.h"
#include "model/config.h"

namespace swiftlet {

struct Cpu {
  ModelConfig config;
  const CpuOps& ops;
  ThreadPool pool;
  Scratch scratch{};
};

// pool.parallel_for without the allocation that a std::function of a capturing lambda costs.
template <class Body>
void parallel(Cpu& cpu, int64_t count, int64_t grain, const Body& body) {
  cpu.pool.parallel_for(count, grain, std::cref(body));
}

// y[t] = W x[t]
struct Projection {
  const Matrix* weight;
  float* y;
  int64_t y_stride;
};

// What pieces of a loop over rows are multiples of: at least, and at most for products in floats, each of which packs
// its tokens anew, and for products in whole numbers, of which only the beginning was not prefetched.
constexpr int64_t kRowGrain = 16, kFloatRowGrain = 512, kIntegerRowGrain = 128;

// Tokens of `cols` columns as products take them: floats, `stride` apart, and the same packed, where it was asked for.
struct Activations {
  const float* x;
  int64_t cols, stride;
  int tokens;
  const std::byte* packed;  // packed_bytes(cols) apart, or null
  Activations part(int64_t first, int count) const {
    return {x + first * stride, cols, stride, count, packed ? packed + first * packed_bytes(cols) : nullptr};
  }
};

// Whether products with w are of whole numbers.
inline bool in_integers(const Cpu& cpu, const Matrix& w) { return cpu.ops.integers.pack && takes_integers(w); }

// Tokens of `cols` columns; packed at `to` (null: in scratch.packed, until the next call), where products will need
// that.
Activations activations(Cpu& cpu, bool packed, const float* x, int64_t cols, int64_t stride, int tokens,
                        std::byte* to = nullptr);

// Rows of a piece of a loop over all `rows` rows of matrices, each multiplied with so many tokens at most. With three
// or more pieces are as long as leaves every thread some.
inline int64_t row_grain(const Cpu& cpu, int tokens, bool packed, int64_t rows) {
  const int64_t least = packed ? 2 * kRowGrain : kRowGrain;  // two sets of rows, as AVX-512 and AMX take them
  if (tokens <= 2) return least;
  return std::clamp(rows / (4 * cpu.pool.threads()) / least * least, least, packed ? kIntegerRowGrain : kFloatRowGrain);
}

// Rows begin .. end - 1 of y[t] = W x[t], on this thread.
inline void multiply(const Cpu& cpu, const Matrix& w, const Activations& x, float* y, int64_t y_stride, int64_t begin,
                     int64_t end) {
  if (in_integers(cpu, w))
    cpu.ops.integers.matmul(w, x.packed, x.tokens, y, y_stride, begin, end);
  else
    cpu.ops.matmul(w, x.x, x.stride, x.tokens, y, y_stride, begin, end);
}

// Where rows begin .. end - 1 of y = W x go for all of `tokens` tokens, so that they lie close together: at
// [t * (end - begin) + row]. Every piece of a loop over rows has a place of its own in memory for all of y.
inline float* close_together(float* memory, int64_t begin, int64_t tokens) { return memory + begin * (tokens - 1); }

// Several matrices applied to the same tokens, as one parallel loop over all their rows. Uses scratch.packed.
void project(Cpu& cpu, std::initializer_list<Projection> projections, const float* x, int64_t x_stride, int tokens);
void project(Cpu& cpu, std::initializer_list<Projection> projections, const Activations& x);
// x[t] += W from[t]; x is [tokens, hidden]. Uses scratch.sum.
void project_and_add(Cpu& cpu, const Matrix& weight, const float* from, int64_t stride, int tokens, float* x);
// out[t] = rms_norm(x[t]), both [tokens, hidden].
void norm_tokens(Cpu& cpu, const float* x, const float* weight, int tokens, float* out);

// Whether gate_and_up() takes its tokens packed.
inline bool gate_or_up_in_integers(const Cpu& cpu, const MlpWeights& mlp) {
  return in_integers(cpu, mlp.gate_proj) || in_integers(cpu, mlp.up_proj);
}
// Whether route() packs h, for itself or what follows. (The gate of the shared expert, one row, takes floats.)
inline bool takes_h_packed(const Cpu& cpu, const MoeWeights& moe) {
  return in_integers(cpu, moe.router) || gate_or_up_in_integers(cpu, moe.shared_expert) ||
         gate_or_up_in_integers(cpu, moe.expert);
}
// h of a chunk's tokens, as route() has left it.
inline Activations h_of(const Cpu& cpu, bool packed, int first, int count) {
  const int64_t hidden = cpu.config.hidden_size;
  const Activations all = {cpu.scratch.h, hidden, hidden, first + count, packed ? cpu.scratch.packed_h : nullptr};
  return all.part(first, count);
}
// gate[t] = silu(gate_proj in[t]) * (up_proj in[t]) of rows begin .. end - 1, on this thread; gate and up are
// [tokens, padded(intermediate)].
void gate_and_up(Cpu& cpu, const MlpWeights& mlp, const Activations& in, float* gate, float* up, int64_t begin,
                 int64_t end);

// As the methods of Backend of the same names.
void delta_net(Cpu& cpu, const DeltaNetWeights& weights, DeltaNetState& state, int first, int tokens);
void attention(Cpu& cpu, const AttentionWeights& weights, KvCache& cache, int64_t position, int tokens);
void dense_mlp(Cpu& cpu, const DenseMlpWeights& weights, int tokens);
void shared_expert(Cpu& cpu, const MoeWeights& weights, int tokens);
void experts(Cpu& cpu, const MlpWeights& expert, std::span<const ExpertWork> work, int tokens);
void end_moe(Cpu& cpu, int tokens);

// The router of a layer on h = rms_norm(x), which stays for the shared expert and the experts if `keep_h`. Top-k to ids
// and probabilities, [tokens, k].
void route(Cpu& cpu, const MoeWeights& weights, int tokens, bool keep_h, int32_t* ids, float* probabilities);

// Pieces of the blocks that stand on their own.

// Rotates the first `dims` of each head at this position, as pairs (j, j + dims / 2), by position * theta^(-2j / dims).
// Angles are computed in double: f32 angles are off by 2e-3 at position 100,000.
struct Rotary {
  float cosine[kMaxHeadDim / 2], sine[kMaxHeadDim / 2];
  int dims;
  Rotary(int64_t position, int dims, double theta);
  void apply(float* head) const;
};

// exp(-exp(A_log) * softplus(a + dt_bias)): what is left of the recurrent state after a token
float delta_decay(float a, float A_log, float dt_bias);

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// The k largest of n values by falling value, ties by index. With NaN among them the choice is arbitrary, but valid.
void top_k(const float* values, int n, int k, int32_t* indices, float* largest);

}  // namespace swiftlet
