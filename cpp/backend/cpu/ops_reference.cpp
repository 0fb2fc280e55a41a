// The operations as plain f32 loops that read like their formulas: what the SIMD ones are compared with.
#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "base/dtype.h"

namespace swiftlet {
namespace {

float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  const float scale = 1.0f / std::sqrt(dot(x, x, n) / float(n) + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void gated_rms_norm(float* x, const float* weight, const float* z, int64_t n, float eps) {
  rms_norm(x, weight, n, eps, x);
  for (int64_t i = 0; i < n; ++i) x[i] *= z[i] * sigmoid(z[i]);
}

void l2_norm(float* x, int64_t n, float scale) {
  const float factor = scale / std::sqrt(dot(x, x, n) + 1e-6f);
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void silu(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= sigmoid(x[i]);
}

void silu_mul(float* gate, const float* up, int64_t n) {
  for (int64_t i = 0; i < n; ++i) gate[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void sigmoid_mul(float* x, const float* gate, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= sigmoid(gate[i]);
}

void add_scaled(float* y, const float* x, float scale, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

void softmax(float* x, int64_t n) {
  const float top = *std::max_element(x, x + n);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - top);
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

void convolve(float* rows, int64_t stride, int tokens, const float* w, int kernel, int64_t channels) {
  for (int t = 0; t < tokens; ++t)
    for (int64_t c = 0; c < channels; ++c) {
      // Row t is the oldest that token t reads, and no later token does: the result takes its place.
      float* x = rows + t * stride + c;
      float sum = 0;
      for (int j = 0; j < kernel; ++j) sum += w[c * kernel + j] * x[j * stride];
      *x = sum * sigmoid(sum);
    }
}

void delta_rule(const DeltaRule& rule) {
  for (int t = 0; t < rule.tokens; ++t) {
    const float* q = rule.q + t * rule.stride;
    const float* k = rule.k + t * rule.stride;
    const float* v = rule.v + t * rule.stride;
    const float decay = rule.decay[t * rule.gate_stride], beta = rule.beta[t * rule.gate_stride];
    for (int64_t r = 0; r < rule.value_dim; ++r) {
      float* row = rule.state + r * rule.key_dim;
      for (int64_t c = 0; c < rule.key_dim; ++c) row[c] *= decay;
      const float delta = beta * (v[r] - dot(row, k, rule.key_dim));
      for (int64_t c = 0; c < rule.key_dim; ++c) row[c] += delta * k[c];
      rule.out[t * rule.out_stride + r] = dot(row, q, rule.key_dim);
    }
  }
}

// Row j of keys or values of a KV head in f32.
void read_row(const KvBlock& block, const void* rows, const float* scales, int j, int kv, int64_t n, float* out) {
  const int64_t begin = j * block.stride + kv * n;
  for (int64_t i = 0; i < n; ++i) {
    switch (block.type) {
      case KvType::F32:
        out[i] = static_cast<const float*>(rows)[begin + i];
        break;
      case KvType::F16:
        out[i] = f16_to_float(static_cast<const uint16_t*>(rows)[begin + i]);
        break;
      case KvType::Int8:
        out[i] = float(static_cast<const int8_t*>(rows)[begin + i]) * scales[j * block.scale_stride + kv];
        break;
    }
  }
}

void attend(const Attend& query, const KvBlock& block, float* m, float* l, float* out) {
  const int64_t n = query.head_dim;
  const int all_heads = query.kv_heads * query.heads, queries = query.tokens * all_heads;
  const auto seen = [&](int t) { return std::min(block.positions + t, kPositionBlock); };
  float row[kMaxHeadDim], weights[kQueryBlock][kPositionBlock];
  // body(token, head, j) with row j of the head's keys or values, for all tokens that see it
  const auto each = [&](const void* rows, const float* scales, const auto& body) {
    for (int kv = 0; kv < query.kv_heads; ++kv)
      for (int j = 0; j < seen(query.tokens - 1); ++j) {
        read_row(block, rows, scales, j, kv, n, row);
        for (int t = 0; t < query.tokens; ++t)
          for (int h = 0; h < query.heads && j < seen(t); ++h) body(t, kv * query.heads + h, j);
      }
  };
  each(block.keys, block.key_scales, [&](int t, int head, int j) {
    const float* q = query.q + t * query.token_stride + head * query.q_stride;
    weights[t * all_heads + head][j] = query.scale * dot(q, row, n);
  });
  for (int i = 0; i < queries; ++i) {
    const int count = seen(i / all_heads);
    m[i] = *std::max_element(weights[i], weights[i] + count);
    l[i] = 0;
    for (int j = 0; j < count; ++j) l[i] += weights[i][j] = std::exp(weights[i][j] - m[i]);
  }
  std::fill(out, out + queries * n, 0.0f);
  each(block.values, block.value_scales, [&](int t, int head, int j) {
    const int index = t * all_heads + head;
    for (int64_t i = 0; i < n; ++i) out[index * n + i] += weights[index][j] * row[i];
  });
}

}  // namespace

const CpuOps reference_ops = {"reference", matmul_reference, {},         rms_norm, gated_rms_norm, l2_norm,    silu,
                              silu_mul,    sigmoid_mul,      add_scaled, softmax,  convolve,       delta_rule, attend};

}  // namespace swiftlet
