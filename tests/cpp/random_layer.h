// A layer of each kind with random weights, and what a backend makes of a sequence that comes in chunks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"

namespace swiftlet::test {

class RandomLayer {
 public:
  // `bits`: 32 for plain f32 matrices, 4 or 8 for affine codes, 0 for both. Of three matrices one has groups of 32 and
  // two have groups of 64, if their columns allow it, with 0 one of 8 bits and one of 4; the seed says which, so that
  // those of one input differ.
  RandomLayer(const ModelConfig& dims, int bits, unsigned seed)
      : config(dims), bits_(bits), made_(seed), engine_(seed) {
    const ModelConfig& c = config;
    const int64_t hidden = c.hidden_size;
    delta_net.input_norm = vector(hidden, 1, 0.1f);
    delta_net.in_proj_qkv = matrix(c.conv_dim(), hidden);
    delta_net.in_proj_z = matrix(c.value_dim(), hidden);
    delta_net.in_proj_b = matrix(c.linear_num_value_heads, hidden);
    delta_net.in_proj_a = matrix(c.linear_num_value_heads, hidden);
    delta_net.conv1d = vector(c.conv_dim() * c.linear_conv_kernel_dim, 0, 0.5f);
    delta_net.A_log = vector(c.linear_num_value_heads, 0, 1);
    delta_net.dt_bias = vector(c.linear_num_value_heads, -2, 1);
    delta_net.norm = vector(c.linear_value_head_dim, 1, 0.1f);
    delta_net.out_proj = matrix(hidden, c.value_dim());

    const int64_t dim = c.head_dim;
    attention.input_norm = vector(hidden, 1, 0.1f);
    attention.q_proj = matrix(c.num_attention_heads * 2 * dim, hidden);
    attention.k_proj = matrix(c.num_key_value_heads * dim, hidden);
    attention.v_proj = matrix(c.num_key_value_heads * dim, hidden);
    attention.o_proj = matrix(hidden, c.num_attention_heads * dim);
    attention.q_norm = vector(dim, 2, 0.1f);
    attention.k_norm = vector(dim, 2, 0.1f);
    attention.k_proj.bias = vector(attention.k_proj.rows, 0, 0.1f);

    moe.post_attention_norm = vector(hidden, 1, 0.1f);
    moe.router = matrix(c.num_experts, hidden);
    moe.shared_expert = mlp(c.shared_expert_intermediate_size);
    moe.shared_expert_gate = matrix(1, hidden);
    const unsigned first = made_;  // all experts alike
    for (int e = 0; e < c.num_experts; ++e) {
      made_ = first;
      std::vector<std::byte>& blob = blobs_.emplace_back();
      moe.expert.gate_proj = matrix(c.moe_intermediate_size, hidden, blob);
      moe.expert.up_proj = matrix(c.moe_intermediate_size, hidden, blob);
      moe.expert.down_proj = matrix(hidden, c.moe_intermediate_size, blob);
    }
    dense.post_attention_norm = vector(hidden, 1, 0.1f);
    dense.mlp = mlp(c.intermediate_size);
    head.norm = vector(hidden, 1, 0.1f);
    head.lm_head = matrix(77, hidden);
  }
  RandomLayer(const RandomLayer&) = delete;
  RandomLayer& operator=(const RandomLayer&) = delete;

  // Like matrices of a checkpoint: rows of unit length or so.
  Matrix matrix(int64_t rows, int64_t cols) {
    std::vector<std::byte>& memory = kept_.emplace_back();
    return matrix(rows, cols, memory).at(memory.data());
  }
  const float* vector(int64_t n, float mean, float deviation) {
    std::vector<std::byte>& memory = kept_.emplace_back();
    append(memory, n, mean, deviation);
    return reinterpret_cast<const float*>(memory.data());
  }
  const std::vector<std::byte>& blob(int expert) const { return blobs_.at(size_t(expert)); }

  const ModelConfig config;
  DeltaNetWeights delta_net;
  AttentionWeights attention;
  MoeWeights moe;
  DenseMlpWeights dense;
  HeadWeights head;

 private:
  MlpWeights mlp(int64_t intermediate) {
    const int64_t hidden = config.hidden_size;
    return {matrix(intermediate, hidden), matrix(intermediate, hidden), matrix(hidden, intermediate)};
  }

  void append(std::vector<std::byte>& memory, int64_t n, float mean, float deviation) {
    std::normal_distribution<float> normal(mean, deviation);
    for (int64_t i = 0; i < n; ++i) {
      const float value = normal(engine_);
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      memory.insert(memory.end(), bytes, bytes + sizeof(value));
    }
  }

  // Appends the pieces of a matrix to `memory`; offsets count from its start.
  Matrix matrix(int64_t rows, int64_t cols, std::vector<std::byte>& memory) {
    Matrix m;
    m.rows = rows;
    m.cols = cols;
    m.weight_offset = memory.size();
    const float unit = 1 / std::sqrt(float(cols));
    if (bits_ == 32 || cols % 32) {
      append(memory, rows * cols, 0, unit);
      return m;
    }
    m.codec = Codec::Affine;
    const unsigned turn = made_++ % 3;
    m.bits = bits_ ? bits_ : turn == 1 ? 8 : 4;
    m.group_size = turn == 0 || cols % 64 ? 32 : 64;
    std::uniform_int_distribution<int> byte(0, 255);
    for (int64_t i = 0; i < rows * cols * m.bits / 8; ++i) memory.push_back(std::byte(byte(engine_)));
    m.scales_offset = memory.size();
    const float steps = float(1 << m.bits) / 4;  // of the scale to a unit
    append(memory, rows * m.groups(), unit / steps, unit / steps / 5);
    m.biases_offset = memory.size();
    append(memory, rows * m.groups(), -2 * unit, unit / 20);
    return m;
  }

  int bits_;
  unsigned made_;  // matrices, counted from the seed
  std::mt19937 engine_;
  std::deque<std::vector<std::byte>> kept_, blobs_;
};

// Sizes of no special beauty.
inline ModelConfig small_dims() {
  ModelConfig c;
  c.hidden_size = 64;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 32;
  c.rotary_dim = 8;
  c.rope_theta = 1e7;
  c.linear_num_key_heads = 2;
  c.linear_num_value_heads = 4;
  c.linear_key_head_dim = 32;
  c.linear_value_head_dim = 32;
  c.linear_conv_kernel_dim = 4;
  c.num_experts = 5;
  c.num_experts_per_tok = 2;
  c.moe_intermediate_size = 32;
  c.shared_expert_intermediate_size = 64;
  c.intermediate_size = 96;
  return c;
}

struct RunOptions {
  std::string isa = "reference";
  int threads = 1;
  KvType kv = KvType::F32;
  unsigned shuffle = 0;  // not 0: experts of short chunks come one by one in a random order
  bool as_read = false;  // experts come as they were read, for the backend to bring them into its order
};

// A layer's experts, each in a slot.
struct Slots {
  MlpWeights expert;
  std::vector<std::vector<std::byte>> blobs;
  std::unique_ptr<bool[]> as_read;

  Slots(const Backend& backend, const RandomLayer& layer, bool in_backends_order)
      : expert(layer.moe.expert), as_read(std::make_unique<bool[]>(size_t(layer.config.num_experts))) {
    for (int e = 0; e < layer.config.num_experts; ++e) blobs.push_back(layer.blob(e));
    for (Matrix* w : {&expert.gate_proj, &expert.up_proj, &expert.down_proj})
      w->interleaved = in_backends_order && backend.interleaves(*w);
    std::fill_n(as_read.get(), blobs.size(), in_backends_order);
  }
};

// The experts of a chunk, as the model calls them.
inline void run_experts(Backend& backend, Slots& slots, int tokens, unsigned shuffle) {
  const Routes routes = backend.routes(0);
  std::map<int, std::vector<ExpertToken>> chosen;  // by expert
  for (int t = 0; t < tokens; ++t) {
    std::map<int, float> weights;  // of the token, by expert
    for (int i = t * routes.k; i < (t + 1) * routes.k; ++i)
      weights[routes.experts[size_t(i)]] = routes.weights[size_t(i)];
    int rank = 0;
    for (const auto& [expert, weight] : weights) chosen[expert].push_back({t, rank++, weight});
  }
  std::vector<ExpertWork> work;
  for (const auto& [expert, list] : chosen)
    work.push_back({expert, slots.blobs[size_t(expert)].data(), list, &slots.as_read[size_t(expert)]});
  if (shuffle && tokens <= Backend::kUnorderedTokens) std::shuffle(work.begin(), work.end(), std::mt19937(shuffle));
  if (shuffle)
    for (const ExpertWork& piece : work) backend.experts(slots.expert, {&piece, 1}, tokens);
  else
    backend.experts(slots.expert, work, tokens);
  for (const ExpertWork& piece : work) CHECK(!*piece.as_read);
}

// What there is to see of a sequence, by name: the residual stream after each block of all tokens, logits, states.
using Results = std::map<std::string, std::vector<float>>;

inline std::unique_ptr<Buffer> allocate_rows(Backend& backend, int64_t rows, int64_t row_bytes) {
  return backend.allocate(size_t(rows * row_bytes));
}

inline KvCache make_cache(Backend& backend, const ModelConfig& c, KvType type, int64_t capacity) {
  const int64_t rows = capacity * c.num_key_value_heads;
  const int64_t element = type == KvType::F32 ? 4 : type == KvType::F16 ? 2 : 1;
  KvCache cache;
  cache.type = type;
  cache.capacity = capacity;
  cache.keys = allocate_rows(backend, rows, c.head_dim * element);
  cache.values = allocate_rows(backend, rows, c.head_dim * element);
  if (type == KvType::Int8) {
    cache.key_scales = allocate_rows(backend, rows, 4);
    cache.value_scales = allocate_rows(backend, rows, 4);
  }
  return cache;
}

inline Results run_layer(const RandomLayer& layer, const std::vector<float>& input, const std::vector<int>& chunks,
                         const RunOptions& options) {
  const ModelConfig& c = layer.config;
  const int64_t hidden = c.hidden_size;
  const auto backend = make_cpu_backend(c, options.threads, options.isa);
  backend->reserve(*std::max_element(chunks.begin(), chunks.end()));
  DeltaNetState state{allocate_rows(*backend, c.linear_conv_kernel_dim - 1, c.conv_dim() * 4),
                      allocate_rows(*backend, c.value_dim(), c.linear_key_head_dim * 4)};
  KvCache cache = make_cache(*backend, c, options.kv, int64_t(input.size()) / hidden);
  Slots slots(*backend, layer, options.as_read);
  Results results;
  const auto look = [&](const std::string& name, int tokens) {
    std::vector<float>& all = results[name];
    all.resize(all.size() + size_t(tokens * hidden));
    backend->hidden(all.data() + all.size() - tokens * hidden, tokens);
  };
  int64_t position = 0;
  for (int tokens : chunks) {
    Matrix rows;
    rows.rows = tokens;
    rows.cols = hidden;
    rows.base = reinterpret_cast<const std::byte*>(input.data() + position * hidden);
    backend->embed(rows, tokens);
    backend->delta_net(layer.delta_net, state, tokens);
    look("delta_net", tokens);
    backend->route(layer.moe, 0, tokens);
    backend->shared_expert(layer.moe, tokens);
    run_experts(*backend, slots, tokens, options.shuffle);
    backend->end_moe(tokens);
    look("moe", tokens);
    backend->attention(layer.attention, cache, position, tokens);
    look("attention", tokens);
    backend->mlp(layer.dense, tokens);
    look("mlp", tokens);
    std::vector<float>& logits = results["logits"];
    logits.resize(logits.size() + size_t(tokens * layer.head.lm_head.rows));
    backend->logits(layer.head, 0, tokens, logits.data() + logits.size() - tokens * layer.head.lm_head.rows);
    position += tokens;
  }
  for (const auto& [name, buffer] : {std::pair("conv", state.conv.get()), std::pair("state", state.state.get()),
                                     std::pair("keys", cache.keys.get()), std::pair("values", cache.values.get())}) {
    std::vector<float>& bits = results[name];  // compared as bits, whatever their type
    bits.resize(buffer->bytes() / sizeof(float));
    if (!bits.empty()) std::memcpy(bits.data(), buffer->host(), bits.size() * sizeof(float));
  }
  return results;
}

inline std::vector<float> random_input(int tokens, int64_t hidden, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> input;
  for (int64_t i = 0; i < tokens * hidden; ++i) input.push_back(normal(engine));
  return input;
}

inline std::vector<int> chunks_of(int total, int size) {
  std::vector<int> chunks(size_t(total / size), size);
  if (total % size) chunks.push_back(total % size);
  return chunks;
}

}  // namespace swiftlet::test
