// What the backend asks of the kernels, where whole models in tests of seconds do not come: long contexts.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/gpu/emulated/emulated_device.h"
#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/scratch.h"
#include "device_under_test.h"

using namespace swiftlet;
using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

ModelConfig attention_dims() {
  ModelConfig c;
  c.hidden_size = 32;
  c.num_hidden_layers = 1;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 1;
  c.head_dim = 32;
  c.rotary_dim = 8;
  c.rope_theta = 1e7;
  c.vocab_size = 32;
  c.linear_num_key_heads = 1;
  c.linear_num_value_heads = 1;
  c.linear_key_head_dim = 32;
  c.linear_value_head_dim = 32;
  c.linear_conv_kernel_dim = 4;
  c.intermediate_size = 32;
  return c;
}

// The residual stream [tokens, hidden] after an attention mixer whose cache is full up to `position`. All random, the
// same for all backends.
std::vector<float> attend(Backend& backend, const ModelConfig& c, int64_t position, int tokens) {
  backend.reserve(tokens);
  std::vector<float> values;
  const auto add = [&](int64_t count, float size) {
    std::vector<float> more = random_floats(size_t(count), uint32_t(values.size()));
    for (float& v : more) v *= size;
    values.insert(values.end(), more.begin(), more.end());
    return int64_t(values.size()) - count;
  };
  const int64_t hidden = c.hidden_size, q = int64_t(c.num_attention_heads) * c.head_dim,
                kv = int64_t(c.num_key_value_heads) * c.head_dim;
  const int64_t input = add(tokens * hidden, 1), norm = add(hidden, 1), q_norm = add(c.head_dim, 1),
                k_norm = add(c.head_dim, 1), q_proj = add(2 * q * hidden, 0.2f), k_proj = add(kv * hidden, 0.2f),
                v_proj = add(kv * hidden, 0.2f), o_proj = add(hidden * q, 0.2f);
  const auto memory = backend.allocate(values.size() * sizeof(float), true);
  std::memcpy(memory->host(), values.data(), memory->bytes());
  const auto vector = [&](int64_t at) { return reinterpret_cast<const float*>(memory->host()) + at; };
  const auto matrix = [&](int64_t at, int64_t rows, int64_t cols) {
    Matrix m;
    m.rows = rows;
    m.cols = cols;
    m.base = memory->host();
    m.weight_offset = uint64_t(at) * sizeof(float);
    return m;
  };
  AttentionWeights w;
  w.input_norm = vector(norm);
  w.q_norm = vector(q_norm);
  w.k_norm = vector(k_norm);
  w.q_proj = matrix(q_proj, 2 * q, hidden);
  w.k_proj = matrix(k_proj, kv, hidden);
  w.v_proj = matrix(v_proj, kv, hidden);
  w.o_proj = matrix(o_proj, hidden, q);

  KvCache cache;
  cache.type = KvType::F32;
  cache.capacity = position + tokens;
  for (auto* rows : {&cache.keys, &cache.values}) {
    *rows = backend.allocate(size_t(cache.capacity * kv) * sizeof(float));
    const std::vector<float> before = random_floats(size_t(position * kv), rows == &cache.keys ? 1 : 2);
    (*rows)->write(0, before.data(), before.size() * sizeof(float));
  }
  backend.embed(matrix(input, tokens, hidden), tokens);
  backend.attention(w, cache, position, tokens);
  std::vector<float> x(size_t(tokens * hidden));
  backend.hidden(x.data(), tokens);
  backend.finish();
  return x;
}

}  // namespace

TEST_CASE("attention of a few tokens, around the positions where its splits change in number and length: as the CPU") {
  const ModelConfig c = attention_dims();
  const auto cpu = make_cpu_backend(c, 1, "reference");
  for (const Order order : {Order::Forwards, Order::Backwards}) {
    const auto gpu = make_gpu_backend(c, make_emulated_device({.order = order}));
    struct Case {
      int64_t position;
      int tokens;
    };
    const int64_t block = kSplitPositions, all = kSplits * block;
    for (const auto& [position, tokens] :
         {Case{0, 1}, Case{block - 1, 2}, Case{all - 2, 8}, Case{all - 1, 1}, Case{all - 1, 2}, Case{all, 8},
          Case{2 * all - 7, 8}, Case{2 * all - 1, 1}}) {
      CAPTURE(position);
      CAPTURE(tokens);
      const std::vector<float> expected = attend(*cpu, c, position, tokens), x = attend(*gpu, c, position, tokens);
      for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - expected[i]) <= 1e-5f);
    }
  }
}
