// The operations over vectors, written once for every instruction set.
//
// V is a type of an unnamed namespace, so that what is instantiated in a file compiled for an instruction set stays in
// that file. It has F (a vector of kLanes floats) and
//   zero(), all(x), load(p) of float, f16 (uint16_t) and int8_t, store(p, v), add, sub, mul, div, fma(a, b, c) = a b +
//   c, min and max (NaN where the second argument is), round (to an integer), pow2(n) = 2^n of integers -126 .. 127,
//   halve(n) = floor(n / 2) of integers, sum(v), top(v): of the lanes, in a fixed order.
// Lanes past the end of a row are loaded as 0 and not stored, by the same arithmetic as all others: an element does not
// depend on where it lies.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/cpu/cpu_ops.h"

namespace swiftlet {

template <class V>
struct SimdOps {
  using F = typename V::F;
  static constexpr int kLanes = V::kLanes;

  // How much of a vector there is: all of it, or the rest of a row.
  struct Whole {};
  struct Part {
    int count;
  };

  template <class T>
  static F load(const T* p, Whole) {
    return V::load(p);
  }
  template <class T>
  static F load(const T* p, Part part) {
    T padded[kLanes] = {};
    for (int i = 0; i < part.count; ++i) padded[i] = p[i];
    return V::load(padded);
  }
  static void store(float* p, F v, Whole) { V::store(p, v); }
  static void store(float* p, F v, Part part) {
    float padded[kLanes];
    V::store(padded, v);
    for (int i = 0; i < part.count; ++i) p[i] = padded[i];
  }

  // body(i, part) for each vector of a row of n.
  template <class Body>
  static void each(int64_t n, const Body& body) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) body(i, Whole{});
    if (i < n) body(i, Part{int(n - i)});
  }

  // Within 1.1 ulp; 0 below -104, infinite above 89.
  static F exp(F x) {
    x = V::max(V::all(-104.0f), V::min(V::all(89.0f), x));
    // x = n ln2 + r with |r| <= ln2 / 2. The first part of ln2 has few bits: n times it is exact.
    const F n = V::round(V::mul(x, V::all(1.44269504f)));
    F r = V::fma(n, V::all(-0.693359375f), x);
    r = V::fma(n, V::all(2.12194440e-4f), r);
    // exp(r) = 1 + r + r^2 p(r), p fitted for the least relative error (3e-9).
    F p = V::all(0x1.6a2438p-10f);
    p = V::fma(p, r, V::all(0x1.1239e2p-7f));
    p = V::fma(p, r, V::all(0x1.5558f2p-5f));
    p = V::fma(p, r, V::all(0x1.555492p-3f));
    p = V::fma(p, r, V::all(0x1.fffffcp-2f));
    p = V::add(V::fma(p, V::mul(r, r), r), V::all(1.0f));
    // 2^n may not be an f32 where the product is: two steps.
    const F half = V::halve(n);
    return V::mul(V::mul(p, V::pow2(half)), V::pow2(V::sub(n, half)));
  }

  static F sigmoid(F x) {
    const F one = V::all(1.0f);
    return V::div(one, V::add(one, exp(V::sub(V::zero(), x))));
  }

  static float sum_of_squares(const float* x, int64_t n) {
    F sum = V::zero();
    each(n, [&](int64_t i, auto part) {
      const F v = load(x + i, part);
      sum = V::fma(v, v, sum);
    });
    return V::sum(sum);
  }

  static void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out) {
    const F scale = V::all(1.0f / std::sqrt(sum_of_squares(x, n) / float(n) + eps));
    each(n, [&](int64_t i, auto part) {
      store(out + i, V::mul(V::mul(load(x + i, part), scale), load(weight + i, part)), part);
    });
  }

  static void gated_rms_norm(float* x, const float* weight, const float* z, int64_t n, float eps) {
    rms_norm(x, weight, n, eps, x);
    each(n, [&](int64_t i, auto part) {
      const F gate = load(z + i, part);
      store(x + i, V::mul(load(x + i, part), V::mul(gate, sigmoid(gate))), part);
    });
  }

  static void l2_norm(float* x, int64_t n, float scale) {
    const F factor = V::all(scale / std::sqrt(sum_of_squares(x, n) + 1e-6f));
    each(n, [&](int64_t i, auto part) { store(x + i, V::mul(load(x + i, part), factor), part); });
  }

  static void silu(float* x, int64_t n) {
    each(n, [&](int64_t i, auto part) {
      const F v = load(x + i, part);
      store(x + i, V::mul(v, sigmoid(v)), part);
    });
  }

  static void silu_mul(float* gate, const float* up, int64_t n) {
    each(n, [&](int64_t i, auto part) {
      const F v = load(gate + i, part);
      store(gate + i, V::mul(V::mul(v, sigmoid(v)), load(up + i, part)), part);
    });
  }

  static void sigmoid_mul(float* x, const float* gate, int64_t n) {
    each(n,
         [&](int64_t i, auto part) { store(x + i, V::mul(load(x + i, part), sigmoid(load(gate + i, part))), part); });
  }

  static void softmax(float* x, int64_t n) {
    float top = x[0];
    for (int64_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
    F sum = V::zero();
    each(n, [&](int64_t i, auto part) {
      store(x + i, exp(V::sub(load(x + i, part), V::all(top))), part);
      sum = V::add(sum, load(x + i, part));  // read back: 0 past the end
    });
    const F total = V::all(V::sum(sum));
    each(n, [&](int64_t i, auto part) { store(x + i, V::div(load(x + i, part), total), part); });
  }

  // R rows of the state at once, so that there is other work while a sum waits for its last addition. Each element is
  // read and written once a token: the pass that updates it also sums what the next token will ask of it.
  template <int R>
  static void delta_rows(const DeltaRule& rule, int64_t first) {
    float* rows = rule.state + first * rule.key_dim;
    const int64_t n = rule.key_dim;
    F recalled[R], deltas[R], sums[R];  // S k, beta * (v - S k), S q
    for (int r = 0; r < R; ++r) recalled[r] = V::zero();
    each(n, [&](int64_t i, auto part) {
      const F key = load(rule.k + i, part);
      for (int r = 0; r < R; ++r) recalled[r] = V::fma(load(rows + r * n + i, part), key, recalled[r]);
    });
    for (int t = 0; t < rule.tokens; ++t) {
      const float* q = rule.q + t * rule.stride;
      const float* k = rule.k + t * rule.stride;
      const float* next_k = t + 1 < rule.tokens ? k + rule.stride : k;
      const float* v = rule.v + t * rule.stride + first;
      const float decay = rule.decay[t * rule.gate_stride], beta = rule.beta[t * rule.gate_stride];
      for (int r = 0; r < R; ++r) {
        deltas[r] = V::all(beta * (v[r] - decay * V::sum(recalled[r])));
        sums[r] = recalled[r] = V::zero();
      }
      each(n, [&](int64_t i, auto part) {
        const F key = load(k + i, part), query = load(q + i, part), next = load(next_k + i, part);
        for (int r = 0; r < R; ++r) {
          float* at = rows + r * n + i;
          const F updated = V::fma(deltas[r], key, V::mul(V::all(decay), load(at, part)));
          store(at, updated, part);
          sums[r] = V::fma(updated, query, sums[r]);
          recalled[r] = V::fma(updated, next, recalled[r]);
        }
      });
      for (int r = 0; r < R; ++r) rule.out[t * rule.out_stride + first + r] = V::sum(sums[r]);
    }
  }

  static void delta_rule(const DeltaRule& rule) {
    constexpr int kRows = 4;
    int64_t row = 0;
    for (; row + kRows <= rule.value_dim; row += kRows) delta_rows<kRows>(rule, row);
    for (; row < rule.value_dim; ++row) delta_rows<1>(rule, row);
  }

  // Scores of H queries with one key, kPositionBlock floats apart.
  template <int H, class T>
  static void scores(const Attend& query, int first, const T* key, float scale, float* out) {
    const float* q = query.q + first * query.q_stride;
    F sums[H];
    for (int h = 0; h < H; ++h) sums[h] = V::zero();
    each(query.head_dim, [&](int64_t i, auto part) {
      const F k = load(key + i, part);
      for (int h = 0; h < H; ++h) sums[h] = V::fma(load(q + h * query.q_stride + i, part), k, sums[h]);
    });
    for (int h = 0; h < H; ++h) out[(first + h) * kPositionBlock] = scale * V::sum(sums[h]);
  }

  // Asks for a row to come to the L2 cache.
  template <class T>
  static void prefetch(const T* row, int64_t n) {
    constexpr int64_t kLine = 64 / sizeof(T);
    for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(row + i, 0, 2);
  }

  template <class T>
  static void attend_rows(const Attend& query, const KvBlock& block, float* m, float* l, float* out) {
    static_assert(kPositionBlock % kLanes == 0);
    const int count = block.positions, heads = query.heads;
    const int padded = (count + kLanes - 1) / kLanes * kLanes;
    const T* keys = static_cast<const T*>(block.keys);
    const T* values = static_cast<const T*>(block.values);
    const int64_t n = query.head_dim;
    float weights[kHeadBlock][kPositionBlock];
    for (int j = 0; j < count; ++j) {
      // Rows of a long context come from memory, and lie too far apart for the CPU to see them coming.
      constexpr int kAhead = 8;
      if (j + kAhead < count) prefetch(keys + (j + kAhead) * block.stride, n);
      prefetch(values + j * block.stride, n);
      const T* key = keys + j * block.stride;
      const float scale = block.key_scales ? query.scale * block.key_scales[j * block.scale_stride] : query.scale;
      int h = 0;
      for (; h + 8 <= heads; h += 8) scores<8>(query, h, key, scale, &weights[0][j]);
      for (; h + 2 <= heads; h += 2) scores<2>(query, h, key, scale, &weights[0][j]);
      for (; h < heads; ++h) scores<1>(query, h, key, scale, &weights[0][j]);
    }
    for (int h = 0; h < heads; ++h) {
      float* w = weights[h];
      for (int j = count; j < padded; ++j) w[j] = -INFINITY;  // exp makes 0 of it
      F top = V::load(w), sum = V::zero();
      for (int j = kLanes; j < padded; j += kLanes) top = V::max(top, V::load(w + j));
      m[h] = V::top(top);
      for (int j = 0; j < padded; j += kLanes) {
        const F e = exp(V::sub(V::load(w + j), V::all(m[h])));
        V::store(w + j, e);
        sum = V::add(sum, e);
      }
      l[h] = V::sum(sum);
      if (block.value_scales)
        for (int j = 0; j < count; ++j) w[j] *= block.value_scales[j * block.scale_stride];
    }

    // Positions one after the other, for every element; four at a time saves reading and writing the sums.
    std::memset(out, 0, size_t(heads * n) * sizeof(float));
    int j = 0;
    for (; j + 4 <= count; j += 4)
      each(n, [&](int64_t i, auto part) {
        const T* at = values + j * block.stride + i;
        const F v0 = load(at, part), v1 = load(at + block.stride, part);
        const F v2 = load(at + 2 * block.stride, part), v3 = load(at + 3 * block.stride, part);
        for (int h = 0; h < heads; ++h) {
          const float* w = weights[h] + j;
          F sum = V::fma(V::all(w[0]), v0, load(out + h * n + i, part));
          sum = V::fma(V::all(w[1]), v1, sum);
          sum = V::fma(V::all(w[2]), v2, sum);
          store(out + h * n + i, V::fma(V::all(w[3]), v3, sum), part);
        }
      });
    for (; j < count; ++j)
      each(n, [&](int64_t i, auto part) {
        const F v = load(values + j * block.stride + i, part);
        for (int h = 0; h < heads; ++h)
          store(out + h * n + i, V::fma(V::all(weights[h][j]), v, load(out + h * n + i, part)), part);
      });
  }

  static void attend(const Attend& query, const KvBlock& block, float* m, float* l, float* out) {
    switch (block.type) {
      case KvType::F32:
        return attend_rows<float>(query, block, m, l, out);
      case KvType::F16:
        return attend_rows<uint16_t>(query, block, m, l, out);
      case KvType::Int8:
        return attend_rows<int8_t>(query, block, m, l, out);
    }
  }

  static constexpr CpuOps table(const char* name, MatmulFn matmul, IntegerOps integers) {
    return {name, matmul,   integers,    rms_norm, gated_rms_norm, l2_norm,
            silu, silu_mul, sigmoid_mul, softmax,  delta_rule,     attend};
  }
};

}  // namespace swiftlet
