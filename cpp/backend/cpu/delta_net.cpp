// The gated DeltaNet mixer.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backend/cpu/blocks.h"

namespace swiftlet {

float delta_decay(float a, float A_log, float dt_bias) {
  const float x = a + dt_bias;
  const float softplus = x > 20.0f ? x : std::log1p(std::exp(x));  // beyond 20 they are equal in f32
  return std::exp(-std::exp(A_log) * softplus);
}

namespace {

// Everything between the projections, for one key head and the value heads that share it: they touch channels and
// states of their own.
void key_head(Cpu& cpu, const DeltaNetWeights& weights, DeltaNetState& state, int tokens, int head) {
  const ModelConfig& c = cpu.config;
  const auto& s = cpu.scratch.delta_net;
  const int64_t dk = c.linear_key_head_dim, dv = c.linear_value_head_dim, stride = padded(c.conv_dim());
  const int64_t keys = int64_t(c.linear_num_key_heads) * dk;
  const int value_heads = c.linear_num_value_heads, shared = value_heads / c.linear_num_key_heads;
  const int kernel = c.linear_conv_kernel_dim, first = head * shared;
  const int64_t q = head * dk, k = keys + head * dk, v = 2 * keys + first * dv;

  for (const auto& [channel, count] : {std::pair(q, dk), std::pair(k, dk), std::pair(v, shared * dv)})
    cpu.ops.convolve(s.qkv + channel, stride, tokens, weights.conv1d + channel * kernel, kernel, count);
  for (int t = 0; t < tokens; ++t) {
    cpu.ops.l2_norm(s.qkv + t * stride + q, dk, 1.0f / std::sqrt(float(dk)));
    cpu.ops.l2_norm(s.qkv + t * stride + k, dk, 1.0f);
    for (int h = first; h < first + shared; ++h) {
      float &decay = s.a[t * value_heads + h], &beta = s.b[t * value_heads + h];
      decay = delta_decay(decay, weights.A_log[h], weights.dt_bias[h]);
      beta = sigmoid(beta);
    }
  }
  float* states = reinterpret_cast<float*>(state.state->host());
  for (int h = first; h < first + shared; ++h) {
    cpu.ops.delta_rule({.state = states + h * dv * dk,
                        .value_dim = dv,
                        .key_dim = dk,
                        .tokens = tokens,
                        .q = s.qkv + q,
                        .k = s.qkv + k,
                        .v = s.qkv + v + (h - first) * dv,
                        .stride = stride,
                        .decay = s.a + h,
                        .beta = s.b + h,
                        .gate_stride = value_heads,
                        .out = s.out + h * dv,
                        .out_stride = padded(c.value_dim())});
    for (int t = 0; t < tokens; ++t) {
      const int64_t at = t * padded(c.value_dim()) + h * dv;
      cpu.ops.gated_rms_norm(s.out + at, weights.norm, s.z + at, dv, c.rms_norm_eps);
    }
  }
}

}  // namespace

void delta_net(Cpu& cpu, const DeltaNetWeights& weights, DeltaNetState& state, int first, int tokens) {
  const ModelConfig& c = cpu.config;
  const auto& s = cpu.scratch.delta_net;
  const int64_t stride = padded(c.conv_dim()), out_stride = padded(c.value_dim());
  const int64_t past = c.linear_conv_kernel_dim - 1;
  const size_t row_bytes = size_t(c.conv_dim()) * sizeof(float);
  auto* past_rows = past ? reinterpret_cast<float*>(state.conv->host()) : nullptr;  // [past, conv_dim]
  for (int begin = 0; begin < tokens; begin += kTokenTile) {
    const int count = std::min(tokens - begin, kTokenTile);
    float* x = cpu.scratch.x + int64_t(first + begin) * c.hidden_size;
    norm_tokens(cpu, x, weights.input_norm, count, cpu.scratch.norm);
    // The convolution sees the last inputs of the past in front of this tile's, and the last of both become the past.
    for (int64_t i = 0; i < past; ++i) std::memcpy(s.qkv + i * stride, past_rows + i * c.conv_dim(), row_bytes);
    project(cpu,
            {{&weights.in_proj_qkv, s.qkv + past * stride, stride},
             {&weights.in_proj_z, s.z, out_stride},
             {&weights.in_proj_b, s.b, c.linear_num_value_heads},
             {&weights.in_proj_a, s.a, c.linear_num_value_heads}},
            cpu.scratch.norm, c.hidden_size, count);
    for (int64_t i = 0; i < past; ++i)
      std::memcpy(past_rows + i * c.conv_dim(), s.qkv + (count + i) * stride, row_bytes);
    parallel(cpu, c.linear_num_key_heads, 1, [&](int64_t head, int64_t end) {
      for (; head < end; ++head) key_head(cpu, weights, state, count, int(head));
    });
    project_and_add(cpu, weights.out_proj, s.out, out_stride, count, x);
  }
}

}  // namespace swiftlet
