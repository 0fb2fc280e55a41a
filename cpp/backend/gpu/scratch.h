// The memory a chunk needs while it goes through the blocks.
#pragma once

#include <memory>
#include <vector>

#include "backend/gpu/device.h"
#include "model/config.h"

namespace swiftlet::gpu {

constexpr int kVectorTokens = 8;    // chunks of up to as many tokens are multiplied as vectors, longer ones by tiles
constexpr int kMixerTile = 512;     // tokens that go through a mixer or an MLP at once
constexpr int kExpertPairs = 4096;  // (expert, token) pairs that go through the experts at once
constexpr uint32_t kSplits = 64;    // of the positions, that a token's attention is spread over
constexpr uint32_t kSplitPositions = 16;  // the fewest of a split
constexpr int kTopSegment = 2048;         // logits that one threadgroup looks at

// Each array is a memory of its own, so that a device can tell what depends on what. f32 unless said otherwise.
// tile = min(max_tokens, kMixerTile), k = experts of a token.
struct Scratch {
  // Alive from block to block.
  std::unique_ptr<Memory> x, h;        // [max_tokens, hidden]: residual stream, and its norm
  std::unique_ptr<Memory> sum;         // [max_tokens, hidden]: what is about to be added to x
  std::unique_ptr<Memory> shared;      // [max_tokens, hidden]: of the shared expert; long chunks add the experts here
  std::unique_ptr<Memory> router;      // [max_tokens, experts + 1]: logits of the router, then the shared expert's gate
  std::unique_ptr<Memory> expert_out;  // [pairs, hidden]; short chunks: by token and place among its experts

  // What the routers chose, u32 and f32 [max_tokens, k]: by rising id, and the addresses of their slots, u64.
  std::unique_ptr<Memory> experts, weights, expert_slots;
  // The same by falling weight, Shared: of each layer for short chunks, since they may be read after the pass,
  // [layers, min(max_tokens, kUnorderedTokens), k]; long chunks use the place of layer 0, [max_tokens, k].
  std::unique_ptr<Memory> top_experts, top_weights;
  // Of guess(): Shared [max_tokens, k] by falling weight, and what nobody reads by rising id.
  std::unique_ptr<Memory> guessed_experts, guessed_weights, unread_experts, unread_weights, unread_slots;
  std::unique_ptr<Memory> guess_h, guess_router;

  // Alive within one block.
  std::unique_ptr<Memory> projected;      // [tile, ..]: what the input projections of a mixer make, side by side
  std::unique_ptr<Memory> mixed;          // [tile, ..]: input of the output projection
  std::unique_ptr<Memory> qkv;            // [tile, conv_dim]
  std::unique_ptr<Memory> decay, beta;    // [tile, value heads]
  std::unique_ptr<Memory> rotary;         // Shared: [max_tokens, rotary_dim / 2, 2]
  std::unique_ptr<Memory> part, part_ml;  // [kVectorTokens, heads, kSplits, head_dim] and 2: partial attention
  std::unique_ptr<Memory> gate_up;        // [rows, 2, intermediate] of long chunks
  std::unique_ptr<Memory> activated;      // [rows, intermediate]

  std::unique_ptr<Memory> logits;                         // [vocab]
  std::unique_ptr<Memory> top_values, top_ids, top_sums;  // of top_segment
  std::unique_ptr<Memory> best_values, best_ids;          // Shared: [kMaxTop + 1], [kMaxTop]

  // By layer, u64 [experts]: addresses of their slots, if all were resident when the layer was last followed. A memory
  // each, since one is written while others are in use.
  std::vector<std::unique_ptr<Memory>> slot_tables;
  std::unique_ptr<Memory> uploads;   // Shared: lists for kernels
  std::unique_ptr<Memory> uploaded;  // the same on a card with memory of its own
};

// Sizes of all arrays for chunks of up to max_tokens; with a device, also the arrays.
size_t scratch_bytes(const ModelConfig& config, int max_tokens);
Scratch make_scratch(const ModelConfig& config, int max_tokens, Device& device);

// Rows of `gate_up`, `activated` and `expert_out` for chunks of up to max_tokens.
int64_t mlp_rows(const ModelConfig& config, int max_tokens);

}  // namespace swiftlet::gpu
