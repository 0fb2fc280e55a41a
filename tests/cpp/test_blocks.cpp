// The blocks of the CPU backend against mlx-lm's numbers, on every instruction set of this machine.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>

#include "backend/cpu/blocks.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa.h"
#include "tensors.h"

namespace swiftlet {
namespace {

using test::load_fixture;
using test::plain_matrix;
using test::relative_error;
using test::Tensor;

constexpr double kTolerance = 1e-5;
constexpr int kExtra = 8;

// The blocks normalise their input, while the fixtures' inputs are after the norm. So the hidden size grows by kExtra
// channels: the first of them evens out the norms of all tokens, so that a constant norm weight gives the fixture's
// input back. Weights are 0 there.
class Widened {
 public:
  Widened(const Tensor& x, float eps) : tokens(int(x.dim(0))), hidden(x.dim(1) + kExtra), narrow_(x.dim(1)) {
    rows_.assign(size_t(tokens * hidden), 0);
    double largest = 0;
    std::vector<double> squares(size_t(tokens), 0);
    for (int t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < narrow_; ++i) squares[size_t(t)] += double(x.row(t)[i]) * x.row(t)[i];
      largest = std::max(largest, squares[size_t(t)]);
    }
    for (int t = 0; t < tokens; ++t) {
      std::copy_n(x.row(t), narrow_, rows_.data() + t * hidden);
      rows_[size_t(t * hidden + narrow_)] = float(std::sqrt(largest - squares[size_t(t)]));
    }
    norm_.assign(size_t(hidden), 0);
    std::fill_n(norm_.begin(), narrow_, float(std::sqrt(largest / double(hidden) + eps)));
  }

  const float* norm() const { return norm_.data(); }
  Matrix rows(int first, int count) const { return plain_matrix(rows_.data() + first * hidden, count, hidden); }
  // A matrix of [rows, narrow] as [rows, hidden], or of [narrow, cols] as [hidden, cols].
  Matrix more_columns(const float* values, int64_t count) {
    std::vector<float>& wide = kept_.emplace_back(size_t(count * hidden), 0.0f);
    for (int64_t r = 0; r < count; ++r) std::copy_n(values + r * narrow_, narrow_, wide.data() + r * hidden);
    return plain_matrix(wide.data(), count, hidden);
  }
  Matrix more_rows(const float* values, int64_t cols) {
    std::vector<float>& tall = kept_.emplace_back(size_t(hidden * cols), 0.0f);
    std::copy_n(values, narrow_ * cols, tall.data());
    return plain_matrix(tall.data(), hidden, cols);
  }
  // What the block added to the residual stream of tokens first .. first + count - 1.
  std::vector<float> added(Backend& backend, int first, int count) const {
    std::vector<float> wide(size_t(count * hidden)), result;
    backend.hidden(wide.data(), count);
    for (int t = 0; t < count; ++t)
      for (int64_t i = 0; i < narrow_; ++i)
        result.push_back(wide[size_t(t * hidden + i)] - rows_[size_t((first + t) * hidden + i)]);
    return result;
  }

  const int tokens;
  const int64_t hidden;

 private:
  int64_t narrow_;
  std::vector<float> rows_, norm_;
  std::deque<std::vector<float>> kept_;
};

void check_near(const std::vector<float>& actual, const float* expected) {
  CHECK(relative_error(actual.data(), expected, actual.size()) < kTolerance);
}

std::vector<float> floats_of(Buffer& buffer) {
  const float* values = reinterpret_cast<const float*>(buffer.host());
  return {values, values + buffer.bytes() / sizeof(float)};
}

const CpuOps& ops(const std::string& isa) { return ops_for(isa); }

TEST_CASE("rms_norm") {
  auto f = load_fixture("components/rms_norm");
  const float eps[] = {1e-6f, 1e-5f, 1e-6f};
  for (const std::string& isa : cpu_isas())
    for (int n = 0; n < 3; ++n) {
      const std::string name = std::to_string(n);
      const Tensor &x = f.at(name + ".x"), &y = f.at(name + ".y");
      std::vector<float> out(x.values.size());
      for (int64_t t = 0; t < x.dim(0); ++t)
        ops(isa).rms_norm(x.row(t), f.at(name + ".w").data(), x.dim(1), eps[n], out.data() + t * x.dim(1));
      check_near(out, y.data());
    }
}

TEST_CASE("gated rms_norm") {
  auto f = load_fixture("components/gated_rms_norm");
  for (const std::string& isa : cpu_isas()) {
    std::vector<float> x = f.at("x").values;
    const int64_t n = f.at("w").dim(0);
    for (size_t at = 0; at < x.size(); at += size_t(n))
      ops(isa).gated_rms_norm(x.data() + at, f.at("w").data(), f.at("z").data() + at, n, 1e-6f);
    check_near(x, f.at("y").data());
  }
}

TEST_CASE("l2 norm of queries and keys: eps counts against the sum, also for rows near zero") {
  auto f = load_fixture("components/qk_norm");
  for (const std::string& isa : cpu_isas())
    for (const std::string& name : std::vector<std::string>{"0.", "1."}) {
      std::vector<float> q = f.at(name + "q").values, k = f.at(name + "k").values;
      const int64_t n = f.at(name + "q").dim(1);
      for (size_t at = 0; at < q.size(); at += size_t(n)) {
        ops(isa).l2_norm(q.data() + at, n, 1 / std::sqrt(float(n)));
        ops(isa).l2_norm(k.data() + at, n, 1);
      }
      check_near(q, f.at(name + "q_out").data());
      check_near(k, f.at(name + "k_out").data());
    }
}

TEST_CASE("rotary") {
  struct Case {
    int dims;
    double theta;
    int64_t offset;
    double tolerance;  // the fixture's angles are f32: position * 2^-23 off
  };
  const Case cases[] = {{16, 1e7, 0, kTolerance},
                        {16, 1e7, 1000, 1e-4},
                        {64, 1e7, 100003, 2e-2},
                        {64, 1e6, 17, kTolerance},
                        {32, 1e4, 3, kTolerance}};
  auto f = load_fixture("components/rope");
  for (int n = 0; n < 5; ++n) {
    const Case& c = cases[n];
    Tensor x = f.at(std::to_string(n) + ".x");
    const int64_t heads = x.dim(1), dim = x.dim(2);
    for (int64_t t = 0; t < x.dim(0); ++t) {
      const Rotary rotary(c.offset + t, c.dims, c.theta);
      for (int64_t h = 0; h < heads; ++h) rotary.apply(x.values.data() + (t * heads + h) * dim);
    }
    CHECK(relative_error(x.values, f.at(std::to_string(n) + ".y").values) < c.tolerance);
  }
}

TEST_CASE("decay and beta") {
  auto f = load_fixture("components/decay");
  const int64_t heads = f.at("A_log").dim(0);
  std::vector<float> g = f.at("a").values, beta = f.at("b").values;
  for (size_t i = 0; i < g.size(); ++i) {
    const size_t h = i % size_t(heads);
    g[i] = delta_decay(g[i], f.at("A_log").values[h], f.at("dt_bias").values[h]);
    beta[i] = sigmoid(beta[i]);
  }
  check_near(g, f.at("g").data());
  check_near(beta, f.at("beta").data());
}

TEST_CASE("convolution") {
  auto f = load_fixture("components/conv1d");
  for (const std::string& isa : cpu_isas())
    for (const std::string& name : std::vector<std::string>{"0.", "1.", "2."}) {
      const Tensor& x = f.at(name + "x");
      std::vector<float> rows = f.at(name + "state_in").values;
      rows.insert(rows.end(), x.values.begin(), x.values.end());
      const int kernel = int(f.at(name + "w").dim(1));
      ops(isa).convolve(rows.data(), x.dim(1), int(x.dim(0)), f.at(name + "w").data(), kernel, x.dim(1));
      rows.resize(x.values.size());
      check_near(rows, f.at(name + "y").data());
    }
}

TEST_CASE("gated delta rule") {
  auto f = load_fixture("components/gated_delta");
  for (const std::string& isa : cpu_isas())
    for (const std::string& name : std::vector<std::string>{"0.", "1.", "2.", "3."}) {
      const Tensor &q = f.at(name + "q"), &v = f.at(name + "v");
      const int tokens = int(q.dim(0));
      const int64_t key_heads = q.dim(1), dk = q.dim(2), heads = v.dim(1), dv = v.dim(2);
      // One array for all, as in the backend: rows of q, k, v.
      const int64_t stride = 2 * key_heads * dk + heads * dv;
      std::vector<float> qkv(size_t(tokens * stride));
      for (int t = 0; t < tokens; ++t) {
        float* row = qkv.data() + t * stride;
        std::copy_n(q.row(t), key_heads * dk, row);
        std::copy_n(f.at(name + "k").row(t), key_heads * dk, row + key_heads * dk);
        std::copy_n(v.row(t), heads * dv, row + 2 * key_heads * dk);
      }
      std::vector<float> state = f.at(name + "state_in").values, out(v.values.size());
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t key_head = h / (heads / key_heads);
        ops(isa).delta_rule({.state = state.data() + h * dv * dk,
                             .value_dim = dv,
                             .key_dim = dk,
                             .tokens = tokens,
                             .q = qkv.data() + key_head * dk,
                             .k = qkv.data() + (key_heads + key_head) * dk,
                             .v = qkv.data() + 2 * key_heads * dk + h * dv,
                             .stride = stride,
                             .decay = f.at(name + "g").data() + h,
                             .beta = f.at(name + "beta").data() + h,
                             .gate_stride = heads,
                             .out = out.data() + h * dv,
                             .out_stride = heads * dv});
      }
      check_near(out, f.at(name + "y").data());
      check_near(state, f.at(name + "state_out").data());
    }
}

ModelConfig delta_net_config(int64_t hidden) {
  ModelConfig config;
  config.hidden_size = hidden;
  config.linear_num_key_heads = 2;
  config.linear_num_value_heads = 4;
  config.linear_key_head_dim = 64;
  config.linear_value_head_dim = 32;
  config.linear_conv_kernel_dim = 4;
  return config;
}

void check_delta_net(const std::map<std::string, Tensor>& f, Widened& x, DeltaNetWeights weights,
                     const ModelConfig& config, const std::string& isa) {
  weights.input_norm = x.norm();
  weights.conv1d = f.at("w.conv1d.weight").data();
  weights.A_log = f.at("w.A_log").data();
  weights.dt_bias = f.at("w.dt_bias").data();
  weights.norm = f.at("w.norm.weight").data();
  weights.out_proj = x.more_rows(f.at("w.out_proj.weight").data(), config.value_dim());
  auto backend = make_cpu_backend(config, 2, isa);
  backend->reserve(7);
  DeltaNetState state{backend->allocate(size_t(3 * config.conv_dim()) * 4), backend->allocate(4 * 32 * 64 * 4)};
  for (const auto& [first, count] : {std::pair(0, 7), std::pair(7, 1)}) {
    backend->embed(x.rows(first, count), count);
    backend->delta_net(weights, state, count);
    check_near(x.added(*backend, first, count), f.at("y").row(first));
    const std::string after = std::to_string(first + count);
    check_near(floats_of(*state.conv), f.at("conv_after_" + after).data());
    check_near(floats_of(*state.state), f.at("state_after_" + after).data());
  }
}

TEST_CASE("DeltaNet mixer with separate projections") {
  auto f = load_fixture("components/deltanet_q35");
  for (const std::string& isa : cpu_isas()) {
    Widened x(f.at("x"), 1e-6f);
    const ModelConfig config = delta_net_config(x.hidden);
    DeltaNetWeights weights;
    weights.in_proj_qkv = x.more_columns(f.at("w.in_proj_qkv.weight").data(), config.conv_dim());
    weights.in_proj_z = x.more_columns(f.at("w.in_proj_z.weight").data(), config.value_dim());
    weights.in_proj_b = x.more_columns(f.at("w.in_proj_b.weight").data(), 4);
    weights.in_proj_a = x.more_columns(f.at("w.in_proj_a.weight").data(), 4);
    check_delta_net(f, x, weights, config, isa);
  }
}

TEST_CASE("DeltaNet mixer with fused projections, split as the loader does") {
  auto f = load_fixture("components/deltanet_next");
  const Tensor &fused = f.at("w.in_proj_qkvz.weight"), &fused_ba = f.at("w.in_proj_ba.weight");
  std::vector<float> q, k, v, z, b, a;
  const float *row = fused.data(), *ba = fused_ba.data();
  const auto take = [](const float*& from, int64_t rows, int64_t cols, std::vector<float>& to) {
    to.insert(to.end(), from, from + rows * cols);
    from += rows * cols;
  };
  for (int head = 0; head < 2; ++head) {
    take(row, 64, 64, q);
    take(row, 64, 64, k);
    take(row, 2 * 32, 64, v);
    take(row, 2 * 32, 64, z);
    take(ba, 2, 64, b);
    take(ba, 2, 64, a);
  }
  q.insert(q.end(), k.begin(), k.end());
  q.insert(q.end(), v.begin(), v.end());
  for (const std::string& isa : cpu_isas()) {
    Widened x(f.at("x"), 1e-6f);
    const ModelConfig config = delta_net_config(x.hidden);
    DeltaNetWeights weights;
    weights.in_proj_qkv = x.more_columns(q.data(), config.conv_dim());
    weights.in_proj_z = x.more_columns(z.data(), config.value_dim());
    weights.in_proj_b = x.more_columns(b.data(), 4);
    weights.in_proj_a = x.more_columns(a.data(), 4);
    check_delta_net(f, x, weights, config, isa);
  }
}

TEST_CASE("gated attention mixer") {
  auto f = load_fixture("components/gated_attention");
  for (const std::string& isa : cpu_isas()) {
    Widened x(f.at("x"), 1e-6f);
    ModelConfig config;
    config.hidden_size = x.hidden;
    config.num_attention_heads = 4;
    config.num_key_value_heads = 2;
    config.head_dim = 64;
    config.rotary_dim = 16;
    config.rope_theta = 1e7;
    AttentionWeights weights;
    weights.input_norm = x.norm();
    weights.q_proj = x.more_columns(f.at("w.q_proj.weight").data(), 4 * 2 * 64);
    weights.k_proj = x.more_columns(f.at("w.k_proj.weight").data(), 2 * 64);
    weights.v_proj = x.more_columns(f.at("w.v_proj.weight").data(), 2 * 64);
    weights.o_proj = x.more_rows(f.at("w.o_proj.weight").data(), 4 * 64);
    weights.q_norm = f.at("w.q_norm.weight").data();
    weights.k_norm = f.at("w.k_norm.weight").data();
    auto backend = make_cpu_backend(config, 2, isa);
    backend->reserve(7);
    KvCache cache;
    cache.type = KvType::F32;
    cache.capacity = 8;
    cache.keys = backend->allocate(8 * 2 * 64 * 4);
    cache.values = backend->allocate(8 * 2 * 64 * 4);
    for (const auto& [first, count] : {std::pair(0, 7), std::pair(7, 1)}) {
      backend->embed(x.rows(first, count), count);
      backend->attention(weights, cache, first, count);
      check_near(x.added(*backend, first, count), f.at("y").row(first));
    }
    // The fixture is [kv heads, position, head_dim], the cache [position, kv heads, head_dim].
    const std::vector<float> keys = floats_of(*cache.keys), values = floats_of(*cache.values);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t p = 0; p < 8; ++p) {
        const auto at = (p * 2 + h) * 64;
        CHECK(relative_error(keys.data() + at, f.at("keys").row(h) + p * 64, 64) < kTolerance);
        CHECK(relative_error(values.data() + at, f.at("values").row(h) + p * 64, 64) < kTolerance);
      }
  }
}

void check_moe(const std::string& fixture, bool norm_topk_prob) {
  auto f = load_fixture(fixture);
  for (const std::string& isa : cpu_isas()) {
    Widened x(f.at("x"), 1e-6f);
    ModelConfig config;
    config.hidden_size = x.hidden;
    config.num_experts = 8;
    config.num_experts_per_tok = 4;
    config.norm_topk_prob = norm_topk_prob;
    config.moe_intermediate_size = 32;
    config.shared_expert_intermediate_size = 48;
    MoeWeights weights;
    weights.post_attention_norm = x.norm();
    weights.router = x.more_columns(f.at("w.gate.weight").data(), 8);
    weights.shared_expert = {x.more_columns(f.at("w.shared_expert.gate_proj.weight").data(), 48),
                             x.more_columns(f.at("w.shared_expert.up_proj.weight").data(), 48),
                             x.more_rows(f.at("w.shared_expert.down_proj.weight").data(), 48)};
    weights.shared_expert_gate = x.more_columns(f.at("w.shared_expert_gate.weight").data(), 1);

    // One blob per expert: gate, up, down.
    const size_t piece = size_t(32 * x.hidden);
    std::vector<std::vector<float>> blobs;
    for (int e = 0; e < 8; ++e) {
      std::vector<float>& blob = blobs.emplace_back();
      for (const Matrix& matrix : {x.more_columns(f.at("w.switch_mlp.gate_proj.weight").row(e), 32),
                                   x.more_columns(f.at("w.switch_mlp.up_proj.weight").row(e), 32),
                                   x.more_rows(f.at("w.switch_mlp.down_proj.weight").row(e), 32)}) {
        const float* values = reinterpret_cast<const float*>(matrix.base);
        blob.insert(blob.end(), values, values + piece);
      }
    }
    weights.expert = {plain_matrix(nullptr, 32, x.hidden), plain_matrix(nullptr, 32, x.hidden),
                      plain_matrix(nullptr, x.hidden, 32)};
    weights.expert.up_proj.weight_offset = piece * 4;
    weights.expert.down_proj.weight_offset = piece * 8;

    auto backend = make_cpu_backend(config, 2, isa);
    backend->reserve(x.tokens);
    backend->embed(x.rows(0, x.tokens), x.tokens);
    backend->route(weights, 0, x.tokens);
    const Routes routes = backend->routes(0);
    backend->guess(weights, x.tokens);
    const Routes guess = backend->guesses();
    CHECK(routes.experts == guess.experts);
    CHECK(routes.weights == guess.weights);
    REQUIRE(routes.k == 4);
    check_near(routes.weights, f.at("weights").data());
    CHECK(std::vector<float>(routes.experts.begin(), routes.experts.end()) == f.at("indices").values);

    backend->shared_expert(weights, x.tokens);
    for (int e = 7; e >= 0; --e) {  // any order will do for so few tokens
      std::vector<ExpertToken> tokens;
      for (int t = 0; t < x.tokens; ++t)
        for (int i = 0; i < 4; ++i)
          if (routes.experts[size_t(t * 4 + i)] == e) {
            const auto first = routes.experts.begin() + t * 4;
            const auto rank = std::count_if(first, first + 4, [&](int other) { return other < e; });
            tokens.push_back({t, int32_t(rank), routes.weights[size_t(t * 4 + i)]});
          }
      const ExpertWork work{e, reinterpret_cast<std::byte*>(blobs[size_t(e)].data()), tokens};
      backend->experts(weights.expert, {&work, 1}, x.tokens);
    }
    backend->end_moe(x.tokens);
    check_near(x.added(*backend, 0, x.tokens), f.at("y").data());
  }
}

TEST_CASE("mixture of experts") { check_moe("components/moe_block", true); }
TEST_CASE("mixture of experts, weights not normalised") { check_moe("components/moe_block_unnormalised", false); }

}  // namespace
}  // namespace swiftlet
