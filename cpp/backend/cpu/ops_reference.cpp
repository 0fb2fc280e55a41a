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

void softmax(float* x, int64_t n) {
  const float top = *std::max_element(x, x + n);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - top);
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
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

// Row j of keys or values in f32.
void read_row(const KvBlock& block, const void* rows, const float* scales, int j, int64_t n, float* out) {
  const int64_t begin = j * block.stride;
  for (int64_t i = 0; i < n; ++i) {
    switch (block.type) {
      case KvType::F32:
        out[i] = static_cast<const float*>(rows)[begin + i];
        break;
      case KvType::F16:
        out[i] = f16_to_float(static_cast<const uint16_t*>(rows)[begin + i]);
        break;
      case KvType::Int8:
        out[i] = float(static_cast<const int8_t*>(rows)[begin + i]) * scales[j * block.scale_stride];
        break;
    }
  }
}

void attend(const Attend& query, const KvBlock& block, float* m, float* l, float* out) {
  const int64_t n = query.head_dim;
  float row[kMaxHeadDim], weights[kHeadBlock][kPositionBlock];
  for (int j = 0; j < block.positions; ++j) {
    read_row(block, block.keys, block.key_scales, j, n, row);
    for (int h = 0; h < query.heads; ++h) weights[h][j] = query.scale * dot(query.q + h * query.q_stride, row, n);
  }
  for (int h = 0; h < query.heads; ++h) {
    m[h] = *std::max_element(weights[h], weights[h] + block.positions);
    l[h] = 0;
    for (int j = 0; j < block.positions; ++j) l[h] += weights[h][j] = std::exp(weights[h][j] - m[h]);
  }
  std::fill(out, out + query.heads * n, 0.0f);
  for (int j = 0; j < block.positions; ++j) {
    read_row(block, block.values, block.value_scales, j, n, row);
    for (int h = 0; h < query.heads; ++h)
      for (int64_t i = 0; i < n; ++i) out[h * n + i] += weights[h][j] * row[i];
  }
}

}  // namespace

const CpuOps reference_ops = {"reference", matmul_reference, {},          rms_norm, gated_rms_norm, l2_norm,
                              silu,        silu_mul,         sigmoid_mul, softmax,  delta_rule,     attend};

}  // namespace swiftlet
