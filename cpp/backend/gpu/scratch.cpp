#include "backend/gpu/scratch.h"

#include <algorithm>
#include <functional>

#include "backend/backend.h"
#include "metal/kernel_args.h"

namespace swiftlet::gpu {

int64_t mlp_rows(const ModelConfig& c, int max_tokens) {
  const int64_t tile = std::min(max_tokens, kMixerTile);
  const int64_t unordered = int64_t(std::min(max_tokens, Backend::kUnorderedTokens)) * c.num_experts_per_tok;
  return std::max({tile, unordered, std::min(int64_t(max_tokens) * c.num_experts_per_tok, int64_t(kExpertPairs))});
}

namespace {

using Make = std::function<void(std::unique_ptr<Memory>&, int64_t elements, Placement, size_t element_bytes)>;

void lay_out(const ModelConfig& c, int max_tokens, Scratch& s, const Make& make) {
  const auto floats = [&](std::unique_ptr<Memory>& m, int64_t n) { make(m, n, Placement::Private, sizeof(float)); };
  const auto shared = [&](std::unique_ptr<Memory>& m, int64_t n, size_t bytes = sizeof(float)) {
    make(m, n, Placement::Shared, bytes);
  };
  const int64_t T = max_tokens, tile = std::min(max_tokens, kMixerTile), hidden = c.hidden_size;
  const int64_t k = c.num_experts_per_tok, layers = c.num_hidden_layers;
  const int64_t routes = std::max(layers * std::min<int64_t>(T, Backend::kUnorderedTokens), T) * k;
  const int64_t q_dim = int64_t(c.num_attention_heads) * c.head_dim;
  const int64_t kv_dim = int64_t(c.num_key_value_heads) * c.head_dim;
  const int64_t delta = c.conv_dim() + c.value_dim() + 2 * int64_t(c.linear_num_value_heads);
  const int64_t rows = mlp_rows(c, max_tokens);
  const int64_t routed = rows * c.moe_intermediate_size;
  const int64_t dense = tile * std::max(c.shared_expert_intermediate_size, c.intermediate_size);
  const int64_t segments = (c.vocab_size + kTopSegment - 1) / kTopSegment;

  floats(s.x, T * hidden);
  floats(s.h, T * hidden);
  floats(s.sum, T * hidden);
  floats(s.shared, T * hidden);
  floats(s.router, T * (c.num_experts + 1));
  floats(s.expert_out, c.num_experts ? rows * hidden : 0);
  for (auto* m : {&s.experts, &s.weights, &s.unread_experts, &s.unread_weights}) floats(*m, T * k);
  for (auto* m : {&s.expert_slots, &s.unread_slots}) make(*m, T * k, Placement::Private, sizeof(uint64_t));
  for (auto* m : {&s.top_experts, &s.top_weights}) shared(*m, routes);
  for (auto* m : {&s.guessed_experts, &s.guessed_weights}) shared(*m, T * k);
  floats(s.guess_h, T * hidden);
  floats(s.guess_router, T * (c.num_experts + 1));

  floats(s.projected, tile * std::max(delta, 2 * q_dim + 2 * kv_dim));
  floats(s.mixed, tile * std::max(c.value_dim(), q_dim));
  floats(s.qkv, tile * c.conv_dim());
  floats(s.decay, tile * c.linear_num_value_heads);
  floats(s.beta, tile * c.linear_num_value_heads);
  shared(s.rotary, T * c.rotary_dim);
  const int64_t parts = int64_t(std::min(max_tokens, kVectorTokens)) * c.num_attention_heads * kSplits;
  floats(s.part, parts * c.head_dim);
  floats(s.part_ml, parts * 2);
  floats(s.gate_up, 2 * std::max(routed, dense));
  floats(s.activated, std::max(routed, dense));

  floats(s.logits, c.vocab_size);
  floats(s.top_values, segments * kMaxTop);
  floats(s.top_ids, segments * kMaxTop);
  floats(s.top_sums, segments);
  shared(s.best_values, kMaxTop + 1);
  shared(s.best_ids, kMaxTop);

  s.slot_tables.resize(size_t(layers));
  for (auto& table : s.slot_tables) make(table, c.num_experts, Placement::Private, sizeof(uint64_t));
  // Lists for the experts of a long chunk, twice over, and some room for short ones.
  shared(s.uploads, 2 * T * k * 6 + 16384);
  floats(s.uploaded, 2 * T * k * 6 + 16384);
}

}  // namespace

size_t scratch_bytes(const ModelConfig& config, int max_tokens) {
  size_t bytes = 0;
  Scratch none;
  lay_out(config, max_tokens, none, [&](std::unique_ptr<Memory>&, int64_t elements, Placement, size_t size) {
    bytes += (size_t(elements) * size + 16383) / 16384 * 16384;  // whole pages
  });
  return bytes;
}

Scratch make_scratch(const ModelConfig& config, int max_tokens, Device& device) {
  Scratch scratch;
  lay_out(config, max_tokens, scratch,
          [&](std::unique_ptr<Memory>& memory, int64_t elements, Placement placement, size_t size) {
            memory = device.allocate(std::max<size_t>(size_t(elements) * size, 16), placement);
          });
  return scratch;
}

}  // namespace swiftlet::gpu
