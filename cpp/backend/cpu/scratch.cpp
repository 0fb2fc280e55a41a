#include "backend/cpu/scratch.h"

#include <algorithm>

#include "backend/cpu/integers.h"

namespace swiftlet {
namespace {

// Hands out pieces of a buffer, one after the other.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <class T>
  void take(T*& piece, int64_t count) {
    piece = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    constexpr size_t kLine = 64;
    used_ += (size_t(count) * sizeof(T) + kLine - 1) / kLine * kLine;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace

Scratch lay_out_scratch(const ModelConfig& c, int max_tokens, std::byte* base) {
  const int64_t tokens = max_tokens;
  const int64_t tile = std::min(max_tokens, kTokenTile);
  const int64_t unordered = std::min(max_tokens, Backend::kUnorderedTokens);
  const int64_t k = c.num_experts_per_tok;
  Scratch s{};
  Carver common(base);
  common.take(s.x, tokens * c.hidden_size);
  common.take(s.h, tokens * c.hidden_size);
  common.take(s.y, tokens * padded(c.hidden_size));
  common.take(s.packed_h, tokens * packed_bytes(c.hidden_size));
  common.take(s.route_weights, tokens * k);
  common.take(s.route_experts, tokens * k);
  common.take(s.expert_out, unordered * k * c.hidden_size);
  common.take(s.expert_arrived, unordered * k);
  common.take(s.norm, tile * c.hidden_size);
  common.take(s.sum, tile * c.hidden_size);
  const int64_t expert_rows = std::min<int64_t>(tokens * k, kExpertRows);
  const int64_t q_dim = int64_t(c.num_attention_heads) * c.head_dim;
  const int64_t intermediate = std::max(c.intermediate_size, c.shared_expert_intermediate_size);
  const int64_t widest = std::max({int64_t(c.hidden_size), c.value_dim(), q_dim, intermediate});
  common.take(s.packed, std::max(tile * packed_bytes(widest), expert_rows * packed_bytes(c.moe_intermediate_size)));

  // Only one of these blocks runs at a time: they begin at the same place.
  Carver delta_net = common;
  delta_net.take(s.delta_net.qkv, (c.linear_conv_kernel_dim - 1 + tile) * padded(c.conv_dim()));
  delta_net.take(s.delta_net.z, tile * padded(c.value_dim()));
  delta_net.take(s.delta_net.a, tile * c.linear_num_value_heads);
  delta_net.take(s.delta_net.b, tile * c.linear_num_value_heads);
  delta_net.take(s.delta_net.out, tile * padded(c.value_dim()));

  Carver attention = common;
  const int64_t kv_dim = int64_t(c.num_key_value_heads) * c.head_dim;
  attention.take(s.attention.q, tile * padded(2 * q_dim));
  attention.take(s.attention.k, tile * kv_dim);
  attention.take(s.attention.v, tile * kv_dim);
  attention.take(s.attention.out, tile * padded(q_dim));
  attention.take(s.attention.m, c.num_attention_heads);
  attention.take(s.attention.l, c.num_attention_heads);
  attention.take(s.attention.part, kPositionBlocks * q_dim);
  attention.take(s.attention.part_m, int64_t(kPositionBlocks) * c.num_attention_heads);
  attention.take(s.attention.part_l, int64_t(kPositionBlocks) * c.num_attention_heads);

  Carver mlp = common;
  mlp.take(s.mlp.gate, tile * padded(intermediate));
  mlp.take(s.mlp.up, tile * padded(intermediate));
  mlp.take(s.mlp.shared_gate, tile);
  mlp.take(s.mlp.router, tile * c.num_experts);

  Carver expert = common;
  expert.take(s.expert.in, expert_rows * c.hidden_size);
  expert.take(s.expert.packed_in, expert_rows * packed_bytes(c.hidden_size));
  expert.take(s.expert.gate, expert_rows * padded(c.moe_intermediate_size));
  expert.take(s.expert.up, expert_rows * padded(c.moe_intermediate_size));
  expert.take(s.expert.out, expert_rows * c.hidden_size);

  s.bytes = std::max({delta_net.used(), attention.used(), mlp.used(), expert.used()});
  return s;
}

}  // namespace swiftlet
