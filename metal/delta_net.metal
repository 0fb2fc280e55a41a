#include <metal_stdlib>
using namespace metal;
#include "activations.h"
#include "kernel_args.h"

// The gated DeltaNet mixer between its projections (Yang et al., "Gated Delta Networks", 2024).

// log(1 + exp(x)); 1 + e loses what is small about e, the factor e / (u - 1) gives it back.
inline float softplus(float x) {
  if (x > 20.0f) {
    return x;
  }
  const float e = precise::exp(x);
  const float u = 1.0f + e;
  return u == 1.0f ? e : precise::log(u) * (e / (u - 1.0f));
}

// Causal depthwise convolution over the last kernel_size inputs, silu, and for q and k the L2 norm
// (q also times 1 / sqrt(key_dim)); decay[t, h] = exp(-exp(A_log) * softplus(a + dt_bias)), beta[t, h] = sigmoid(b).
// With one token the last inputs move on here; with more, conv_save does it.
// Grid: (key heads of q, key heads of k, value heads; T), 32 threads.
kernel void delta_prepare(const device float* in [[buffer(0)]],      // [T, ..]: the projections, in_stride apart
                          device float* past [[buffer(1)]],          // [kernel_size - 1, channels], oldest first
                          const device float* conv1d [[buffer(2)]],  // [channels, kernel_size]
                          const device float* A_log [[buffer(3)]],   // [value heads]
                          const device float* dt_bias [[buffer(4)]],
                          device float* qkv [[buffer(5)]],           // [T, channels]
                          device float* decay [[buffer(6)]],         // [T, value heads]
                          device float* beta [[buffer(7)]],
                          constant DeltaPrepareArgs& a [[buffer(8)]],
                          uint3 tg [[threadgroup_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]]) {
  const uint head = tg.x;
  const uint token = tg.y;
  const bool value = head >= 2 * a.key_heads;
  const uint dim = value ? a.value_dim : a.key_dim;
  const uint channel0 = value ? 2 * a.key_heads * a.key_dim + (head - 2 * a.key_heads) * a.value_dim : head * a.key_dim;
  const uint channels = 2 * a.key_heads * a.key_dim + a.value_heads * a.value_dim;
  const uint taps = a.kernel_size;
  device float* out = qkv + ulong(token) * channels + channel0;

  float squares = 0.0f;
  for (uint i = lane; i < dim; i += 32) {
    const uint c = channel0 + i;
    float sum = 0.0f;
    for (uint j = 0; j < taps; j++) {
      // Tap j sees the input of token + j - (taps - 1).
      const uint at = token + j;
      const float v = at < taps - 1 ? past[ulong(at) * channels + c] : in[ulong(at - (taps - 1)) * a.in_stride + c];
      sum += v * conv1d[c * taps + j];
    }
    const float y = silu(sum);
    out[i] = y;
    squares += y * y;
    if (a.tokens == 1 && taps > 1) {
      for (uint j = 0; j + 2 < taps; j++) {
        past[ulong(j) * channels + c] = past[ulong(j + 1) * channels + c];
      }
      past[ulong(taps - 2) * channels + c] = in[c];
    }
  }
  squares = simd_sum(squares);
  if (!value) {
    const float unit = 1.0f / precise::sqrt(squares + 1e-6f);
    const float scale = head < a.key_heads ? unit * (1.0f / precise::sqrt(float(a.key_dim))) : unit;
    for (uint i = lane; i < dim; i += 32) {
      out[i] *= scale;
    }
  } else if (lane == 0) {
    const uint h = head - 2 * a.key_heads;
    const ulong row = ulong(token) * a.in_stride;
    const ulong gate = ulong(token) * a.value_heads + h;
    decay[gate] = precise::exp(-precise::exp(A_log[h]) * softplus(in[row + a.a + h] + dt_bias[h]));
    beta[gate] = sigmoid(in[row + a.b + h]);
  }
}

// past = the last kernel_size - 1 of (past, in). A thread has a channel.
// Grid: threadgroups of channels.
kernel void conv_save(const device float* in [[buffer(0)]],  // [T, ..], in_stride apart
                      device float* past [[buffer(1)]],      // [kernel_size - 1, channels]
                      constant ConvSaveArgs& a [[buffer(2)]],
                      uint tg [[threadgroup_position_in_grid]],
                      uint tid [[thread_index_in_threadgroup]],
                      uint threads [[threads_per_threadgroup]]) {
  const uint c = tg * threads + tid;
  if (c >= a.channels) {
    return;
  }
  const uint rows = a.kernel_size - 1;
  for (uint j = 0; j < rows; j++) {
    const uint from = j + a.tokens;  // of (past, in); never before j, so no row is needed again
    past[ulong(j) * a.channels + c] =
        from < rows ? past[ulong(from) * a.channels + c] : in[ulong(from - rows) * a.in_stride + c];
  }
}

// out[row] = out[row] / sqrt(mean(out[row]^2) + eps) * weight * silu(z), by one SIMD group.
inline void gated_norm_row(device float* out, const device float* z, const device float* weight, uint dim, float eps,
                           uint lane) {
  float sum = 0.0f;
  for (uint i = lane; i < dim; i += 32) {
    sum += out[i] * out[i];
  }
  sum = simd_sum(sum);
  const float scale = 1.0f / precise::sqrt(sum / float(dim) + eps);
  for (uint i = lane; i < dim; i += 32) {
    out[i] = out[i] * scale * weight[i] * silu(z[i]);
  }
}

// The gated delta rule, token after token:
//   S *= decay[t];  S += beta[t] * (v[t] - S k[t]) k[t]^T;  out[t] = S q[t]
// A SIMD group keeps 4 rows of a head's S [value_dim, key_dim] in registers, PER_LANE columns in each lane.
// Grid: (parts of a head, value heads); a threadgroup works on SIMD groups * 4 rows, or (a.norm) on all of its head.
template <uint PER_LANE>
kernel void delta_rule(device float* state [[buffer(0)]],         // [value heads, value_dim, key_dim]
                       const device float* qkv [[buffer(1)]],     // [T, channels], from delta_prepare
                       const device float* decay [[buffer(2)]],   // [T, value heads]
                       const device float* beta [[buffer(3)]],
                       const device float* z [[buffer(4)]],       // the projections: z at a.z, z_stride apart
                       const device float* weight [[buffer(5)]],  // [value_dim]
                       device float* out [[buffer(6)]],           // [T, value heads, value_dim]
                       constant DeltaRuleArgs& a [[buffer(7)]],
                       uint3 tg [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint simd [[simdgroup_index_in_threadgroup]],
                       uint simds [[simdgroups_per_threadgroup]]) {
  const uint head = tg.y;
  const uint key_head = head / (a.value_heads / a.key_heads);
  const uint keys = a.key_heads * a.key_dim;
  const uint channels = 2 * keys + a.value_heads * a.value_dim;
  const uint out_stride = a.value_heads * a.value_dim;
  const uint last = a.norm != 0 ? a.value_dim : min((tg.x + 1) * simds * 4, a.value_dim);
  for (uint row0 = tg.x * simds * 4 + simd * 4; row0 < last; row0 += simds * 4) {
    device float* s = state + (ulong(head) * a.value_dim + row0) * a.key_dim;
    const uint rows = min(a.value_dim - row0, 4u);
    float S[4][PER_LANE];
#pragma unroll
    for (uint r = 0; r < 4; r++) {
#pragma unroll
      for (uint i = 0; i < PER_LANE; i++) {
        const uint c = lane + 32 * i;
        S[r][i] = r < rows && c < a.key_dim ? s[r * a.key_dim + c] : 0.0f;
      }
    }
    for (uint t = 0; t < a.tokens; t++) {
      const device float* q = qkv + ulong(t) * channels + key_head * a.key_dim;
      const device float* k = q + keys;
      const device float* v = qkv + ulong(t) * channels + 2 * keys + head * a.value_dim + row0;
      const float g = decay[ulong(t) * a.value_heads + head];
      const float b = beta[ulong(t) * a.value_heads + head];
      float qs[PER_LANE];
      float ks[PER_LANE];
#pragma unroll
      for (uint i = 0; i < PER_LANE; i++) {
        const uint c = lane + 32 * i;
        qs[i] = c < a.key_dim ? q[c] : 0.0f;
        ks[i] = c < a.key_dim ? k[c] : 0.0f;
      }
      float remembered[4];
#pragma unroll
      for (uint r = 0; r < 4; r++) {
        float sum = 0.0f;
#pragma unroll
        for (uint i = 0; i < PER_LANE; i++) {
          S[r][i] *= g;
          sum = fma(S[r][i], ks[i], sum);
        }
        remembered[r] = simd_sum(sum);
      }
#pragma unroll
      for (uint r = 0; r < 4; r++) {
        const float d = (v[min(r, rows - 1)] - remembered[r]) * b;
        float sum = 0.0f;
#pragma unroll
        for (uint i = 0; i < PER_LANE; i++) {
          S[r][i] = fma(d, ks[i], S[r][i]);
          sum = fma(S[r][i], qs[i], sum);
        }
        remembered[r] = simd_sum(sum);
      }
      device float* o = out + ulong(t) * out_stride + head * a.value_dim + row0;
#pragma unroll
      for (uint r = 0; r < 4; r++) {
        if (lane == r && r < rows) {
          o[r] = remembered[r];
        }
      }
    }
#pragma unroll
    for (uint r = 0; r < 4; r++) {
#pragma unroll
      for (uint i = 0; i < PER_LANE; i++) {
        const uint c = lane + 32 * i;
        if (r < rows && c < a.key_dim) {
          s[r * a.key_dim + c] = S[r][i];
        }
      }
    }
  }
  if (a.norm == 0) {
    return;
  }
  threadgroup_barrier(mem_flags::mem_device);
  for (uint t = simd; t < a.tokens; t += simds) {
    gated_norm_row(out + ulong(t) * out_stride + head * a.value_dim, z + ulong(t) * a.z_stride + a.z + head * a.value_dim,
                   weight, a.value_dim, a.eps, lane);
  }
}

template [[host_name("delta_rule_32")]] kernel decltype(delta_rule<1>) delta_rule<1>;
template [[host_name("delta_rule_64")]] kernel decltype(delta_rule<2>) delta_rule<2>;
template [[host_name("delta_rule_128")]] kernel decltype(delta_rule<4>) delta_rule<4>;
template [[host_name("delta_rule_256")]] kernel decltype(delta_rule<8>) delta_rule<8>;

// What delta_rule leaves to be done when its threadgroups hold parts of heads.
// Grid: (value heads, T), 32 threads.
kernel void gated_norm(device float* out [[buffer(0)]],           // [T, value heads, value_dim]
                       const device float* z [[buffer(1)]],
                       const device float* weight [[buffer(2)]],  // [value_dim]
                       constant DeltaRuleArgs& a [[buffer(3)]],
                       uint3 tg [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]]) {
  gated_norm_row(out + (ulong(tg.y) * a.value_heads + tg.x) * a.value_dim,
                 z + ulong(tg.y) * a.z_stride + a.z + tg.x * a.value_dim, weight, a.value_dim, a.eps, lane);
}
