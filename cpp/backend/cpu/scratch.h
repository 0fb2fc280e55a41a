// The memory a chunk needs while it goes through the blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "model/config.h"

namespace swiftlet {

constexpr int kTokenTile = 128;      // tokens that go through a mixer or an MLP at once
constexpr int kExpertRows = 256;     // (expert, token) pairs that go through the experts at once
constexpr int kPositionBlocks = 16;  // blocks of positions that one token's attention spreads over the threads at once

// How far apart rows of `floats` floats lie that are written some columns at a time. At a power of two these would
// share few sets of the cache.
constexpr int64_t padded(int64_t floats) { return floats + 16; }

// All of it f32 unless said otherwise. tile = min(max_tokens, kTokenTile).
struct Scratch {
  // Alive from block to block.
  float *x, *h;             // [max_tokens, hidden]: residual stream, input of the experts
  float* y;                 // [max_tokens, padded(hidden)]: sum of the experts
  std::byte* packed_h;      // [max_tokens]: h, as integers.h has it
  float* route_weights;     // [max_tokens, k]
  int32_t* route_experts;   // [max_tokens, k]
  float* expert_out;        // [min(max_tokens, kUnorderedTokens), k, hidden]: weight * expert(h), in place of its rank
  uint8_t* expert_arrived;  // [min(max_tokens, kUnorderedTokens), k]

  // Alive within one block.
  float* norm;        // [tile, hidden]: rms_norm(x)
  float* sum;         // [tile * hidden]: what is about to be added to x
  std::byte* packed;  // tokens of the next products, as integers.h has them
  struct {
    float* qkv;    // [kernel - 1 + tile, padded(conv_dim)]
    float* z;      // [tile, padded(value_dim)]
    float *a, *b;  // [tile, value heads]
    float* out;    // [tile, padded(value_dim)]
  } delta_net;
  struct {
    float* q;                       // [tile, padded(heads * 2 * head_dim)]: query and gate of each head
    float *k, *v;                   // [tile, kv heads, head_dim]
    float* out;                     // [tile, padded(heads * head_dim)]
    float *m, *l;                   // [heads]: of the token that is spread over the threads
    float *part, *part_m, *part_l;  // [kPositionBlocks, heads, head_dim], [kPositionBlocks, heads]: its blocks
  } attention;
  struct {
    float *gate, *up;    // [tile, padded(intermediate)]
    float* shared_gate;  // [tile]
    float* router;       // [tile, experts]
  } mlp;
  struct {
    float* in;             // [rows, hidden], rows = min(max_tokens * k, kExpertRows)
    std::byte* packed_in;  // [rows]
    float *gate, *up;      // [rows, padded(moe_intermediate)]
    float* out;            // [rows * hidden]
  } expert;

  size_t bytes;
};

// Where everything lies from `base` on; with a null base only `bytes` has a meaning.
Scratch lay_out_scratch(const ModelConfig& config, int max_tokens, std::byte* base);

}  // namespace swiftlet
