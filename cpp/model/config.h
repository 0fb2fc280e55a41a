// The dimensions of a model, read from a checkpoint's config.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace swiftlet {

// An entry of config.json's "quantization" block; 0 where it is silent.
struct QuantizationEntry {
  int bits = 0;
  int group_size = 0;
};

// Names follow config.json (Hugging Face).
struct ModelConfig {
  std::string model_type;  // "qwen3_next" or "qwen3_5_moe"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int num_hidden_layers = 0;
  std::vector<bool> linear_layers;  // true: gated DeltaNet, false: gated attention

  // Gated attention
  int num_attention_heads = 0;
  int num_key_value_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;     // the first rotary_dim of head_dim are rotated, as pairs (j, j + rotary_dim / 2)
  double rope_theta = 0;  // base of the rotary frequencies
  int64_t max_position_embeddings = 0;

  // Gated DeltaNet
  int linear_num_key_heads = 0;
  int linear_num_value_heads = 0;
  int linear_key_head_dim = 0;
  int linear_value_head_dim = 0;
  int linear_conv_kernel_dim = 0;

  // Mixture of experts
  int num_experts = 0;
  int num_experts_per_tok = 0;
  bool norm_topk_prob = true;
  int64_t moe_intermediate_size = 0;
  int64_t shared_expert_intermediate_size = 0;
  int64_t intermediate_size = 0;  // of the dense layers
  std::vector<bool> moe_layers;   // false: a dense MLP instead of router and experts

  float rms_norm_eps = 1e-6f;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  std::vector<int> eos_token_ids;

  bool has_quantization = false;
  QuantizationEntry quantization;                                   // of every module without an entry of its own
  std::map<std::string, QuantizationEntry> quantization_overrides;  // by canonical module name

  int64_t conv_dim() const {  // channels of the DeltaNet convolution: q, k, v
    return 2 * key_dim() + value_dim();
  }
  int64_t key_dim() const { return int64_t(linear_num_key_heads) * linear_key_head_dim; }
  int64_t value_dim() const { return int64_t(linear_num_value_heads) * linear_value_head_dim; }
};

// A tensor or module name without the prefix that multimodal checkpoints put before the text model:
// "language_model.model.layers.0.mlp" and "model.language_model.layers.0.mlp" become "model.layers.0.mlp".
std::string canonical_name(std::string_view name);

// Parses config.json (and generation_config.json, "" if there is none, for end tokens) and checks every value that is
// used. `file` names the source in messages. Throws ErrorKind::Container.
ModelConfig parse_config(const std::string& json, const std::string& generation_json, const std::string& file);

}  // namespace swiftlet
