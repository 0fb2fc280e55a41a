#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "model/config.h"

using namespace swiftlet;
using Json = nlohmann::json;

namespace {

Json fixture(const std::string& name) {
  std::ifstream file(std::string(SWIFTLET_TEST_DATA) + "/checkpoints/" + name + "/config.json");
  return Json::parse(file);
}

ModelConfig parse(const Json& json, const std::string& generation = "") {
  return parse_config(json.dump(), generation, "config.json");
}

// Sets a value, parses, and returns the message of the error that must follow.
std::string refusal(Json json, const char* pointer, const Json& value) {
  json[Json::json_pointer(pointer)] = value;
  try {
    parse(json);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Container);
    return e.what();
  }
  FAIL("accepted " << pointer << " = " << value.dump());
  return "";
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("config: qwen3_next with a dense layer, biases and tied embeddings") {
  const ModelConfig c = parse(fixture("next-hf-f32"));
  CHECK(c.model_type == "qwen3_next");
  CHECK(c.linear_layers == std::vector<bool>{true, true, true, false});
  CHECK(c.moe_layers == std::vector<bool>{true, true, false, true});
  CHECK(c.rotary_dim == 8);
  CHECK(c.conv_dim() == 128);
  CHECK(c.value_dim() == 64);
  CHECK(c.tie_word_embeddings);
  CHECK(c.attention_bias);
  CHECK(!c.norm_topk_prob);
  CHECK(c.eos_token_ids == std::vector<int>{450});
}

TEST_CASE("config: qwen3_5_moe nests the text model and mixes quantizations") {
  const ModelConfig c = parse(fixture("q35-overrides"), R"({"eos_token_id": [448, 450]})");
  CHECK(c.model_type == "qwen3_5_moe");
  CHECK(c.norm_topk_prob);
  CHECK(c.eos_token_ids == std::vector<int>{448, 450});
  CHECK(c.quantization.bits == 4);
  CHECK(c.quantization_overrides.at("model.layers.1.mlp.switch_mlp.down_proj").bits == 6);
  CHECK(c.quantization_overrides.at("model.layers.1.mlp.switch_mlp.down_proj").group_size == 32);
}

TEST_CASE("config: canonical names") {
  CHECK(canonical_name("language_model.model.norm.weight") == "model.norm.weight");
  CHECK(canonical_name("model.language_model.norm.weight") == "model.norm.weight");
  CHECK(canonical_name("model.norm.weight") == "model.norm.weight");
  CHECK(canonical_name("language_model.lm_head.weight") == "lm_head.weight");
}

TEST_CASE("config: refusals name the key and the value") {
  const Json next = fixture("next-hf-f32"), q35 = fixture("q35-overrides");
  CHECK(mentions(refusal(next, "/model_type", "llama"), "llama"));
  CHECK(mentions(refusal(next, "/model_type", 7), "model_type"));
  CHECK(mentions(refusal(next, "/hidden_size", nullptr), "hidden_size"));
  CHECK(mentions(refusal(next, "/hidden_size", -64), "-64"));
  CHECK(mentions(refusal(next, "/hidden_size", 64.5), "64.5"));
  CHECK(mentions(refusal(next, "/hidden_size", uint64_t(1) << 63), "too large"));
  CHECK(mentions(refusal(next, "/num_hidden_layers", 0), "num_hidden_layers"));
  CHECK(mentions(refusal(next, "/num_experts_per_tok", 6), "num_experts_per_tok"));
  CHECK(mentions(refusal(next, "/num_key_value_heads", 3), "num_key_value_heads"));
  CHECK(mentions(refusal(next, "/linear_num_key_heads", 4), "linear_num_key_heads"));
  CHECK(mentions(refusal(next, "/mlp_only_layers", Json::array({9})), "mlp_only_layers"));
  CHECK(mentions(refusal(next, "/partial_rotary_factor", 0), "partial_rotary_factor"));
  CHECK(mentions(refusal(next, "/rope_scaling", Json{{"type", "yarn"}}), "yarn"));
  CHECK(mentions(refusal(next, "/hidden_act", "gelu"), "gelu"));
  CHECK(mentions(refusal(next, "/rms_norm_eps", 0), "rms_norm_eps"));
  CHECK(mentions(refusal(next, "/eos_token_id", 99999), "99999"));
  CHECK(mentions(refusal(next, "/use_sliding_window", true), "use_sliding_window"));
  CHECK(mentions(refusal(q35, "/text_config/layer_types", Json::array({"mamba"})), "layer_types"));
  CHECK(mentions(refusal(q35, "/text_config/layer_types/0", "mamba"), "mamba"));
  CHECK(mentions(refusal(q35, "/text_config/attn_output_gate", false), "attn_output_gate"));
  CHECK(mentions(refusal(q35, "/quantization/bits", 99), "bits"));
}

TEST_CASE("config: text that is no JSON object") {
  for (const char* text : {"", "{", "[]", "null", "{\"model_type\": \"qwen3_next\"", "\xff\xfe"})
    CHECK_THROWS_AS(parse_config(text, "", "config.json"), Error);
}
