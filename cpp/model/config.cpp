#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "container/json.h"

namespace swiftlet {
namespace {

using Json = nlohmann::json;

// Reads values of one JSON object; every message names the file and the key.
struct Reader {
  const Json& object;
  const std::string& file;

  [[noreturn]] void refuse(const char* key, const std::string& problem) const {
    fail(ErrorKind::Container, file, ": \"", key, "\" ", problem);
  }

  const Json* find(const char* key) const {
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }

  int64_t integer(const char* key, int64_t low, int64_t high) const {
    const Json* value = find(key);
    if (!value) refuse(key, "is missing");
    return checked(key, *value, low, high);
  }

  int64_t integer_or(const char* key, int64_t fallback, int64_t low, int64_t high) const {
    const Json* value = find(key);
    return value ? checked(key, *value, low, high) : fallback;
  }

  double number_or(const char* key, double fallback) const {
    const Json* value = find(key);
    if (!value) return fallback;
    if (!value->is_number()) refuse(key, "must be a number, but is " + value->dump());
    return value->get<double>();
  }

  bool flag_or(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (!value) return fallback;
    if (!value->is_boolean()) refuse(key, "must be true or false, but is " + value->dump());
    return value->get<bool>();
  }

 private:
  int64_t checked(const char* key, const Json& value, int64_t low, int64_t high) const {
    if (!value.is_number_integer()) refuse(key, "must be a whole number, but is " + value.dump());
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()))
      refuse(key, "is " + value.dump() + ", which is too large");
    const int64_t number = value.get<int64_t>();
    if (number < low || number > high)
      refuse(key,
             "is " + value.dump() + ", but must lie between " + std::to_string(low) + " and " + std::to_string(high));
    return number;
  }
};

Json parse_object(const std::string& text, const std::string& file) {
  Json json = parse_json(text, file, "repack the checkpoint").root;
  if (!json.is_object()) fail(ErrorKind::Container, file, " is not a JSON object: the file is damaged");
  return json;
}

void add_eos(const Json& object, const std::string& file, int64_t vocab_size, std::set<int>& ids) {
  const Reader in{object, file};
  const Json* value = in.find("eos_token_id");
  if (!value) return;
  for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocab_size)
      in.refuse("eos_token_id",
                "is " + value->dump() + ", but must hold token ids below vocab_size " + std::to_string(vocab_size));
    ids.insert(id.get<int>());
  }
}

std::vector<bool> read_linear_layers(const Reader& in, int layers) {
  std::vector<bool> linear(layers);
  if (const Json* types = in.find("layer_types")) {
    if (!types->is_array() || types->size() != size_t(layers))
      in.refuse("layer_types", "must list one type for each of the " + std::to_string(layers) + " layers");
    for (int i = 0; i < layers; i++) {
      const Json& type = (*types)[i];
      if (type != "linear_attention" && type != "full_attention")
        in.refuse("layer_types", "holds " + type.dump() + "; known are linear_attention and full_attention");
      linear[i] = type == "linear_attention";
    }
  } else {
    const int64_t interval = in.integer_or("full_attention_interval", 4, 1, 1 << 20);
    for (int i = 0; i < layers; i++) linear[i] = (i + 1) % interval != 0;
  }
  return linear;
}

// Dense layers: those of mlp_only_layers, and those that decoder_sparse_step leaves out.
std::vector<bool> read_moe_layers(const Reader& in, int layers) {
  const int64_t step = in.integer_or("decoder_sparse_step", 1, 1, 1 << 20);
  std::vector<bool> moe(layers);
  for (int i = 0; i < layers; i++) moe[i] = (i + 1) % step == 0;
  if (const Json* dense = in.find("mlp_only_layers")) {
    if (!dense->is_array()) in.refuse("mlp_only_layers", "must be a list");
    for (const Json& i : *dense) {
      if (!i.is_number_integer() || i.get<int64_t>() < 0 || i.get<int64_t>() >= layers)
        in.refuse("mlp_only_layers", "holds " + i.dump() + ", which is no layer");
      moe[i.get<size_t>()] = false;
    }
  }
  return moe;
}

void read_rope(const Reader& in, ModelConfig& config) {
  const Json none = Json::object();
  const Json* rope_json = in.find("rope_parameters");
  if (!rope_json) rope_json = in.find("rope_scaling");
  if (rope_json && !rope_json->is_object()) in.refuse("rope_parameters", "must be an object");
  const Reader rope{rope_json ? *rope_json : none, in.file};
  for (const char* key : {"rope_type", "type"}) {
    const Json* type = rope.find(key);
    if (type && *type != "default")
      rope.refuse(key, "is " + type->dump() + "; only the default rotary embedding is supported: remove the scaling");
  }
  config.rope_theta = rope.number_or("rope_theta", in.number_or("rope_theta", 1e7));
  if (!(config.rope_theta > 1 && std::isfinite(config.rope_theta))) in.refuse("rope_theta", "must be above 1");
  const double factor = rope.number_or("partial_rotary_factor", in.number_or("partial_rotary_factor", 0.25));
  config.rotary_dim = int(config.head_dim * std::clamp(factor, 0.0, 1.0));
  if (!(factor > 0 && factor <= 1) || config.rotary_dim < 2 || config.rotary_dim % 2 != 0)
    in.refuse("partial_rotary_factor", "must lie in (0, 1] and rotate an even number of the head's " +
                                           std::to_string(config.head_dim) + " dimensions");
}

QuantizationEntry read_quantization_entry(const Json& object, const std::string& file) {
  const Reader in{object, file};
  return {int(in.integer_or("bits", 0, 1, 32)), int(in.integer_or("group_size", 0, 1, 1 << 20))};
}

void read_quantization(const Json& root, const std::string& file, ModelConfig& config) {
  const Reader in{root, file};
  const Json* block = in.find("quantization");
  if (!block) return;
  if (!block->is_object()) in.refuse("quantization", "must be an object");
  config.has_quantization = true;
  config.quantization = read_quantization_entry(*block, file);
  for (const auto& [name, entry] : block->items())
    if (entry.is_object()) config.quantization_overrides[canonical_name(name)] = read_quantization_entry(entry, file);
}

}  // namespace

std::string canonical_name(std::string_view name) {
  constexpr std::string_view kInner = "model.language_model.", kOuter = "language_model.";
  if (name.starts_with(kInner)) return "model." + std::string(name.substr(kInner.size()));
  if (name.starts_with(kOuter)) name.remove_prefix(kOuter.size());
  return std::string(name);
}

ModelConfig parse_config(const std::string& json, const std::string& generation_json, const std::string& file) {
  const Json root = parse_object(json, file);
  const Reader top{root, file};

  ModelConfig config;
  const Json* type = top.find("model_type");
  if (!type || !type->is_string()) top.refuse("model_type", "is missing");
  config.model_type = type->get<std::string>();
  if (config.model_type == "qwen3_5_moe_text") config.model_type = "qwen3_5_moe";
  if (config.model_type != "qwen3_next" && config.model_type != "qwen3_5_moe")
    top.refuse("model_type", "is \"" + config.model_type + "\"; supported are qwen3_next and qwen3_5_moe");

  const Json* text = config.model_type == "qwen3_5_moe" ? top.find("text_config") : nullptr;
  if (text && !text->is_object()) top.refuse("text_config", "must be an object");
  const Reader in{text ? *text : root, file};
  if (const Json* inner = text ? in.find("model_type") : nullptr; inner && *inner != "qwen3_5_moe_text")
    in.refuse("text_config", "has the model_type " + inner->dump() + "; supported is qwen3_5_moe_text");

  constexpr int64_t kMaxDim = 1 << 20;  // keeps every product of two dimensions far from overflow
  config.num_hidden_layers = int(in.integer("num_hidden_layers", 1, 999));
  config.vocab_size = in.integer("vocab_size", 1, 1 << 24);
  config.hidden_size = in.integer("hidden_size", 1, kMaxDim);
  config.max_position_embeddings = in.integer_or("max_position_embeddings", 262144, 1, int64_t(1) << 31);
  config.linear_layers = read_linear_layers(in, config.num_hidden_layers);

  config.num_attention_heads = int(in.integer("num_attention_heads", 1, 4096));
  config.num_key_value_heads = int(in.integer("num_key_value_heads", 1, 4096));
  if (config.num_attention_heads % config.num_key_value_heads != 0)
    in.refuse("num_key_value_heads", "must divide num_attention_heads " + std::to_string(config.num_attention_heads));
  config.head_dim = int(in.integer_or("head_dim", config.hidden_size / config.num_attention_heads, 2, 65536));
  read_rope(in, config);

  config.linear_num_key_heads = int(in.integer("linear_num_key_heads", 1, 4096));
  config.linear_num_value_heads = int(in.integer("linear_num_value_heads", 1, 4096));
  if (config.linear_num_value_heads % config.linear_num_key_heads != 0)
    in.refuse("linear_num_key_heads",
              "must divide linear_num_value_heads " + std::to_string(config.linear_num_value_heads));
  config.linear_key_head_dim = int(in.integer("linear_key_head_dim", 1, 65536));
  config.linear_value_head_dim = int(in.integer("linear_value_head_dim", 1, 65536));
  config.linear_conv_kernel_dim = int(in.integer("linear_conv_kernel_dim", 2, 64));

  config.moe_layers = read_moe_layers(in, config.num_hidden_layers);
  if (std::ranges::find(config.moe_layers, true) != config.moe_layers.end()) {
    config.num_experts = int(in.integer("num_experts", 1, 65536));
    config.num_experts_per_tok = int(in.integer("num_experts_per_tok", 1, config.num_experts));
    config.moe_intermediate_size = in.integer("moe_intermediate_size", 1, kMaxDim);
    config.shared_expert_intermediate_size = in.integer("shared_expert_intermediate_size", 1, kMaxDim);
  }
  if (std::ranges::find(config.moe_layers, false) != config.moe_layers.end())
    config.intermediate_size = in.integer("intermediate_size", 1, kMaxDim);
  // Silent configs: mlx-lm does not normalise for qwen3_next and does for qwen3_5_moe.
  config.norm_topk_prob = in.flag_or("norm_topk_prob", config.model_type == "qwen3_5_moe");

  config.rms_norm_eps = float(in.number_or("rms_norm_eps", 1e-6));
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps < 1)) in.refuse("rms_norm_eps", "must lie between 0 and 1");
  config.tie_word_embeddings = in.flag_or("tie_word_embeddings", top.flag_or("tie_word_embeddings", false));
  config.attention_bias = in.flag_or("attention_bias", false);
  if (!in.flag_or("attn_output_gate", true)) in.refuse("attn_output_gate", "is false, which is not supported");
  if (in.flag_or("use_sliding_window", false)) in.refuse("use_sliding_window", "is true, which is not supported");
  if (const Json* act = in.find("hidden_act"); act && *act != "silu")
    in.refuse("hidden_act", "is " + act->dump() + "; only silu is supported");

  std::set<int> eos;
  add_eos(root, file, config.vocab_size, eos);
  if (text) add_eos(*text, file, config.vocab_size, eos);
  if (!generation_json.empty())
    add_eos(parse_object(generation_json, "generation_config.json"), "generation_config.json", config.vocab_size, eos);
  config.eos_token_ids.assign(eos.begin(), eos.end());

  read_quantization(root, file, config);
  return config;
}

}  // namespace swiftlet
