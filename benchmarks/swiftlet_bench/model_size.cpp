#include "model_size.h"

#include "model/weights.h"

namespace swiftlet::bench {

TokenBytes token_bytes(const Qpack& qpack, const ModelConfig& config, KvType kv) {
  TokenBytes bytes;
  bytes.resident = resident_weight_bytes(qpack, config);
  for (const ExpertLayout& layout : qpack.layouts)
    for (const Section& section : layout.sections)
      bytes.experts += uint64_t(config.num_experts_per_tok) * section.bytes;
  const StateShape shape = state_shape(config, kv);
  bytes.state = shape.delta_bytes;
  bytes.kv_row = shape.row_bytes;
  return bytes;
}

double prefill_weights(const ModelConfig& c) {
  const auto hidden = double(c.hidden_size);
  const double query = double(c.num_attention_heads) * c.head_dim, key = double(c.num_key_value_heads) * c.head_dim;
  const double delta_net = hidden * double(c.conv_dim() + 2 * c.value_dim() + 2 * c.linear_num_value_heads);
  const double attention = hidden * (3 * query + 2 * key);
  const double routed = double(c.num_experts_per_tok * c.moe_intermediate_size);
  const double moe = hidden * (c.num_experts + 1 + 3 * (routed + double(c.shared_expert_intermediate_size)));
  const double mlp = 3 * hidden * double(c.intermediate_size);
  double weights = 0;
  for (int i = 0; i < c.num_hidden_layers; ++i)
    weights += (c.linear_layers[size_t(i)] ? delta_net : attention) + (c.moe_layers[size_t(i)] ? moe : mlp);
  return weights;
}

}  // namespace swiftlet::bench
