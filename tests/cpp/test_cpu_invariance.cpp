// The contract of backend.h: chunks, threads and the order of experts do not change a bit.
#include <doctest/doctest.h>

#include "random_layer.h"
#include "tensors.h"

namespace swiftlet {
namespace {

using namespace test;

void check_same(const Results& actual, const Results& expected) {
  for (const auto& [name, values] : expected) {
    CAPTURE(name);
    CHECK(same_bits(actual.at(name), values));
  }
}

ModelConfig other_dims() {
  ModelConfig c = small_dims();
  c.hidden_size = 96;
  c.num_attention_heads = 3;  // one KV head, three queries each
  c.num_key_value_heads = 1;
  c.head_dim = 44;  // no multiple of a vector
  c.rotary_dim = 4;
  c.linear_num_key_heads = 1;
  c.linear_num_value_heads = 3;
  c.linear_key_head_dim = 20;
  c.linear_value_head_dim = 12;
  c.linear_conv_kernel_dim = 2;
  c.num_experts = 3;  // all of them for every token: of 300 tokens more than go through an expert at once
  c.num_experts_per_tok = 3;
  c.norm_topk_prob = false;
  c.moe_intermediate_size = 40;
  return c;
}

ModelConfig wide_dims() {
  ModelConfig c = small_dims();
  c.num_attention_heads = 9;  // more queries of a KV head than go together
  c.num_key_value_heads = 1;
  c.head_dim = 256;
  c.rotary_dim = 64;
  c.linear_num_key_heads = 1;
  c.linear_num_value_heads = 2;
  c.linear_key_head_dim = 128;
  c.linear_value_head_dim = 128;
  c.num_experts = 16;
  c.num_experts_per_tok = 4;
  return c;
}

ModelConfig many_heads() {
  ModelConfig c = small_dims();
  c.num_attention_heads = 15;  // of 5 KV heads, which go together by twos in a prefill
  c.num_key_value_heads = 5;
  return c;
}

// Experts of which down is interleaved as well, and one of gate and up.
ModelConfig long_experts() {
  ModelConfig c = small_dims();
  c.moe_intermediate_size = 128;
  return c;
}

// Experts of which down alone is, and that not to its last row.
ModelConfig ragged_experts() {
  ModelConfig c = small_dims();
  c.hidden_size = 40;
  c.moe_intermediate_size = 64;
  return c;
}

TEST_CASE("chunks, threads and the order of experts do not change a bit") {
  struct Case {
    ModelConfig dims;
    int bits, tokens;
    KvType kv;
  };
  const Case cases[] = {
      {small_dims(), 4, 300, KvType::F16},  {wide_dims(), 4, 135, KvType::F16},    {small_dims(), 4, 40, KvType::F16},
      {wide_dims(), 8, 70, KvType::F16},    {small_dims(), 32, 135, KvType::F32},  {other_dims(), 4, 300, KvType::Int8},
      {many_heads(), 0, 70, KvType::F16},   {many_heads(), 0, 70, KvType::Int8},   {long_experts(), 4, 70, KvType::F16},
      {long_experts(), 0, 70, KvType::F16}, {ragged_experts(), 4, 70, KvType::F16}};
  for (const std::string& isa : cpu_isas())
    for (unsigned seed = 1; const Case& c : cases) {
      CAPTURE(isa);
      CAPTURE(c.dims.head_dim);
      const RandomLayer layer(c.dims, c.bits, seed++);
      const std::vector<float> input = random_input(c.tokens, c.dims.hidden_size, 2);
      const Results whole = run_layer(layer, input, {c.tokens}, {.isa = isa, .kv = c.kv});
      const std::vector<float>& logits = whole.at("logits");
      CHECK(std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); }));
      const auto again = [&](const std::vector<int>& chunks, int threads, unsigned shuffle) {
        CAPTURE(chunks.front());
        CAPTURE(threads);
        check_same(run_layer(layer, input, chunks, {.isa = isa, .threads = threads, .kv = c.kv, .shuffle = shuffle}),
                   whole);
      };
      for (const auto& chunks : {std::vector{c.tokens}, chunks_of(c.tokens, 9)})
        check_same(run_layer(layer, input, chunks, {.isa = isa, .threads = 2, .kv = c.kv, .as_read = true}), whole);
      again({c.tokens}, 2, 0);
      again({c.tokens}, 3, 3);
      again(chunks_of(c.tokens, 1), 1, 4);
      again(chunks_of(c.tokens, 1), 3, 0);
      again(chunks_of(c.tokens, 7), 2, 5);
      again(chunks_of(c.tokens, 32), 2, 6);
      again(chunks_of(c.tokens, 33), 3, 7);
      again(chunks_of(c.tokens, 64), 1, 0);
    }
}

TEST_CASE("a long context gives the same bits token by token") {
  // More positions than one token spreads over the threads at once.
  ModelConfig c = small_dims();
  c.hidden_size = 32;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  const int before = 2300, after = 3;
  const RandomLayer layer(c, 32, 1);
  const std::vector<float> input = random_input(before + after, c.hidden_size, 2);
  std::vector<int> steps = {before}, pieces = chunks_of(before, 512);
  steps.insert(steps.end(), after, 1);
  pieces.push_back(after);
  for (const std::string& isa : cpu_isas()) {
    CAPTURE(isa);
    const Results one = run_layer(layer, input, pieces, {.isa = isa, .threads = 1, .kv = KvType::F16});
    check_same(run_layer(layer, input, steps, {.isa = isa, .threads = 3, .kv = KvType::F16}), one);
  }
}

TEST_CASE("every instruction set computes what the reference does") {
  for (const ModelConfig& dims : {small_dims(), other_dims(), wide_dims(), many_heads()}) {
    const RandomLayer layer(dims, 32, 1);
    const std::vector<float> input = random_input(60, dims.hidden_size, 2);
    for (KvType kv : {KvType::F32, KvType::F16, KvType::Int8}) {
      const Results expected = run_layer(layer, input, {60}, {.kv = kv});
      for (const std::string& isa : cpu_isas()) {
        CAPTURE(isa);
        const Results actual = run_layer(layer, input, {60}, {.isa = isa, .threads = 2, .kv = kv});
        // Int8: a value that lies between two codes may round to either.
        const double tolerance = kv == KvType::F32 ? 2e-5 : kv == KvType::F16 ? 2e-4 : 5e-3;
        for (const char* name : {"delta_net", "moe", "conv", "state"})
          CHECK(relative_error(actual.at(name), expected.at(name)) < 2e-5);
        for (const char* name : {"attention", "mlp", "logits"})
          CHECK(relative_error(actual.at(name), expected.at(name)) < tolerance);
      }
    }
  }
}

TEST_CASE("4-bit and 8-bit matrices of one input need not be alike") {
  for (const auto& [bits, seed] :
       {std::pair{4, 1u}, {4, 2u}, {4, 3u}, {8, 1u}, {8, 2u}, {8, 3u}, {0, 1u}, {0, 2u}, {0, 3u}}) {
    CAPTURE(bits);
    CAPTURE(seed);
    const RandomLayer layer(small_dims(), bits, seed);
    const std::vector<float> input = random_input(60, layer.config.hidden_size, 2);
    const Results expected = run_layer(layer, input, {60}, {.kv = KvType::F32});
    for (const std::string& isa : cpu_isas()) {
      CAPTURE(isa);
      const Results actual = run_layer(layer, input, {60}, {.isa = isa, .threads = 2, .kv = KvType::F32});
      for (const auto& [name, values] : expected) {
        CAPTURE(name);
        CHECK(relative_error(actual.at(name), values) < 2e-3);  // an input counts with 16 bits
      }
    }
  }
}

TEST_CASE("a KV cache of f16 or int8 stays near one of f32") {
  const ModelConfig dims = wide_dims();
  const RandomLayer layer(dims, 32, 1);
  const std::vector<float> input = random_input(140, dims.hidden_size, 2);
  for (const std::string& isa : cpu_isas()) {
    const auto attended = [&](KvType kv) {
      return run_layer(layer, input, {140}, {.isa = isa, .threads = 2, .kv = kv}).at("attention");
    };
    const std::vector<float> exact = attended(KvType::F32);
    const double f16 = relative_error(attended(KvType::F16), exact),
                 int8 = relative_error(attended(KvType::Int8), exact);
    CHECK(f16 < 1e-3);
    CHECK(int8 < 3e-2);
    CHECK(f16 < int8);  // and none of them is f32 in disguise
    CHECK(f16 > 0);
  }
}

}  // namespace
}  // namespace swiftlet
