// The operations over vectors, written once for every instruction set.
//
// V is a type of an unnamed namespace, so that what is instantiated in a file compiled for an instruction set stays in
// that file. It has F (a vector of kLanes floats) and
//   zero(), all(x), load(p) of float, f16 (uint16_t) and int8_t, store(p, v), add, sub, mul, div, fma(a, b, c) = a b +
//   c, min and max (NaN where the second argument is), round (to an integer), pow2(n) = 2^n of integers -126 .. 127,
//   halve(n) = floor(n / 2) of integers, sum(v), top(v): of the lanes, in a fixed order, sum4(a, b, c, d, out): the
//   four sums, each with the bits of sum(), hold(v): v, loaded once; kRegisters: how many vectors the processor holds.
// Lanes past the end of a row are loaded as 0 and not stored, by the same arithmetic as all others: an element does not
// depend on where it lies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/thread_scratch.h"

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

  static void add_scaled(float* y, const float* x, float scale, int64_t n) {
    each(n, [&](int64_t i, auto part) {
      store(y + i, V::add(load(y + i, part), V::mul(V::all(scale), load(x + i, part))), part);
    });
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

  static void convolve(float* rows, int64_t stride, int tokens, const float* w, int kernel, int64_t channels) {
    constexpr int64_t kBlock = 128;  // channels
    constexpr int kAhead = 4;        // tokens
    float taps[kMaxConvKernel][kBlock];
    for (int64_t first = 0; first < channels; first += kBlock) {
      const int64_t n = std::min(channels - first, kBlock);
      for (int64_t c = 0; c < n; ++c)
        for (int j = 0; j < kernel; ++j) taps[j][c] = w[(first + c) * kernel + j];
      for (int t = 0; t < tokens; ++t) {
        // Row t is the oldest that token t reads, and no later token does: the result takes its place.
        float* row = rows + t * stride + first;
        // Rows lie pages apart, where no prefetcher follows.
        for (int64_t c = 0; t + kAhead < tokens && c < n; c += 16)
          __builtin_prefetch(row + (kernel - 1 + kAhead) * stride + c);
        each(n, [&](int64_t i, auto part) {
          F sum = V::mul(load(taps[0] + i, part), load(row + i, part));
          for (int j = 1; j < kernel; ++j) sum = V::fma(load(taps[j] + i, part), load(row + j * stride + i, part), sum);
          store(row + i, V::mul(sum, sigmoid(sum)), part);
        });
      }
    }
  }

  // body(0) .. body(N - 1) with constants, so that arrays of vectors stay in registers.
  template <int N, class Body>
  [[gnu::always_inline]] static void unrolled(const Body& body) {
    [&]<int... i>(std::integer_sequence<int, i...>) {
      (body(std::integral_constant<int, i>()), ...);
    }(std::make_integer_sequence<int, N>());
  }

  // The lanes of each of N vectors summed, by sum()'s order.
  template <int N>
  static void sums(const F* v, float* out) {
    unrolled<N / 4>([&](auto i) { V::sum4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3], out + 4 * i); });
    unrolled<N % 4>([&](auto i) { out[N / 4 * 4 + i] = V::sum(v[N / 4 * 4 + i]); });
  }

  // One token on R rows of the state, which are n long: S = decay S + deltas k^T, S q and what the next token will ask,
  // S next_k. A function of its own: inlined, gcc keeps the sums in memory.
  template <int R>
  [[gnu::noinline]] static void delta_step(float* rows, int64_t n, float decay, const float* deltas, const float* k,
                                           const float* q, const float* next_k, float* of_q, float* of_next_k) {
    F delta[R], asked[R], recalled[R];
    unrolled<R>([&](auto r) {
      delta[r] = V::all(deltas[r]);
      asked[r] = recalled[r] = V::zero();
    });
    each(n, [&](int64_t i, auto part) {
      const F key = load(k + i, part), query = load(q + i, part), next = load(next_k + i, part);
      unrolled<R>([&](auto r) {
        float* at = rows + r * n + i;
        const F updated = V::fma(delta[r], key, V::mul(V::all(decay), load(at, part)));
        store(at, updated, part);
        asked[r] = V::fma(updated, query, asked[r]);
        recalled[r] = V::fma(updated, next, recalled[r]);
      });
    });
    sums<R>(asked, of_q);
    sums<R>(recalled, of_next_k);
  }

  // G times R rows of the state, so that one's arithmetic goes on while another's sums wait for their last additions.
  template <int R, int G>
  static void delta_rows(const DeltaRule& rule, int64_t first) {
    const int64_t n = rule.key_dim;
    float recalled[G][R], deltas[R];  // S k, beta * (v - decay S k)
    for (int g = 0; g < G; ++g) products<1, R>(rule.k, 0, rule.state + (first + g * R) * n, n, n, recalled[g]);
    for (int t = 0; t < rule.tokens; ++t) {
      const float *k = rule.k + t * rule.stride, *q = rule.q + t * rule.stride;
      const float* next_k = t + 1 < rule.tokens ? k + rule.stride : k;
      const float decay = rule.decay[t * rule.gate_stride], beta = rule.beta[t * rule.gate_stride];
      for (int g = 0; g < G; ++g) {
        const int64_t row = first + g * R;
        const float* v = rule.v + t * rule.stride + row;
        for (int r = 0; r < R; ++r) deltas[r] = beta * (v[r] - decay * recalled[g][r]);
        delta_step<R>(rule.state + row * n, n, decay, deltas, k, q, next_k, rule.out + t * rule.out_stride + row,
                      recalled[g]);
      }
    }
  }

  static void delta_all_rows(const DeltaRule& rule) {
    constexpr int kRows = V::kRegisters / 4, kGroups = 2;
    int64_t row = 0;
    for (; row + kGroups * kRows <= rule.value_dim; row += kGroups * kRows) delta_rows<kRows, kGroups>(rule, row);
    for (; row < rule.value_dim; ++row) delta_rows<1, 1>(rule, row);
  }

  // Tokens go in blocks whose q, k and v are brought together first, so that they stay in the L1 cache while all rows
  // of the state pass over them: as they come, each lies in a page of its own.
  static void delta_rule(const DeltaRule& rule) {
    constexpr int kTokens = 16;
    if (rule.tokens == 1) return delta_all_rows(rule);
    DeltaRule block = rule;
    block.stride = 2 * rule.key_dim + rule.value_dim;
    float* copy = thread_scratch(size_t(kTokens * block.stride));
    block.q = copy;
    block.k = copy + rule.key_dim;
    block.v = copy + 2 * rule.key_dim;
    for (int first = 0; first < rule.tokens; first += kTokens) {
      block.tokens = std::min(rule.tokens - first, kTokens);
      for (int t = 0; t < block.tokens; ++t) {
        float* to = copy + t * block.stride;
        const int64_t from = (first + t) * rule.stride;
        std::copy_n(rule.q + from, rule.key_dim, to);
        std::copy_n(rule.k + from, rule.key_dim, to + rule.key_dim);
        std::copy_n(rule.v + from, rule.value_dim, to + 2 * rule.key_dim);
      }
      block.decay = rule.decay + first * rule.gate_stride;
      block.beta = rule.beta + first * rule.gate_stride;
      block.out = rule.out + first * rule.out_stride;
      delta_all_rows(block);
    }
  }

  // Rows of keys or values that go together: they stay in the L1 cache while all queries pass over them.
  static constexpr int kRowBlock = 16;

  // The kRowBlock rows that will be used next. They are asked for one by one, so that they arrive under the arithmetic.
  struct Ahead {
    const std::byte* rows;  // null: none
    int64_t stride, row_bytes;
    void fetch(int64_t row) const {
      constexpr int64_t kLine = 64;
      if (!rows) return;
      for (int64_t i = 0; i < row_bytes; i += kLine) __builtin_prefetch(rows + row * stride + i);
    }
  };

  template <class T>
  struct Rows {
    const T* at;
    int64_t stride;
    int count;  // 1 .. kRowBlock
    Ahead ahead;
  };

  // Products of Q queries with K keys; those of a query lie side by side, kPositionBlock from the next query's.
  // A function of its own: inlined into all that calls it, gcc writes the sums to memory each time.
  template <int Q, int K, class T>
  [[gnu::noinline]] static void products(const float* q, int64_t q_stride, const T* keys, int64_t stride, int64_t n,
                                         float* out) {
    F dots[Q * K];
    unrolled<Q * K>([&](auto i) { dots[i] = V::zero(); });
    each(n, [&](int64_t i, auto part) {
      F key[K];
      unrolled<K>([&](auto j) { key[j] = load(keys + j * stride + i, part); });
      unrolled<Q>([&](auto h) {
        const F query = V::hold(load(q + h * q_stride + i, part));
        unrolled<K>([&](auto j) { dots[h * K + j] = V::fma(query, key[j], dots[h * K + j]); });
      });
    });
    float of_all[Q * K];
    sums<Q * K>(dots, of_all);
    for (int h = 0; h < Q; ++h)
      for (int j = 0; j < K; ++j) out[h * kPositionBlock + j] = of_all[h * K + j];
  }

  template <int Q, class T>
  static void products(const float* q, int64_t q_stride, const Rows<T>& keys, int64_t n, float* out) {
    int j = 0;
    for (; j + 2 <= keys.count; j += 2) {
      keys.ahead.fetch(j);
      keys.ahead.fetch(j + 1);
      products<Q, 2>(q, q_stride, keys.at + j * keys.stride, keys.stride, n, out + j);
    }
    if (j < keys.count) products<Q, 1>(q, q_stride, keys.at + j * keys.stride, keys.stride, n, out + j);
  }

  // Adds the sum of weight * value to out of Q queries, one value after the other.
  template <int Q, class T>
  static void add_values(const float* weights, const Rows<T>& values, int64_t n, float* out) {
    const auto columns = [&]<int C>(int64_t i, auto part) {
      F sum[Q * C];  // of query h and vector c at [h * C + c]
      unrolled<Q * C>([&](auto s) { sum[s] = load(out + s / C * n + i + s % C * kLanes, part); });
      for (int j = 0; j < values.count; ++j) {
        F value[C];
        unrolled<C>([&](auto c) { value[c] = load(values.at + j * values.stride + i + c * kLanes, part); });
        unrolled<Q>([&](auto h) {
          const F weight = V::all(weights[h * kPositionBlock + j]);
          unrolled<C>([&](auto c) { sum[h * C + c] = V::fma(weight, value[c], sum[h * C + c]); });
        });
      }
      unrolled<Q * C>([&](auto s) { store(out + s / C * n + i + s % C * kLanes, sum[s], part); });
    };
    int64_t i = 0, row = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      for (; row * n < kRowBlock * i; ++row) values.ahead.fetch(row);
      columns.template operator()<2>(i, Whole{});
    }
    for (; i + kLanes <= n; i += kLanes) columns.template operator()<1>(i, Whole{});
    if (i < n) columns.template operator()<1>(i, Part{int(n - i)});
  }

  // How many positions of the block a token sees.
  static int seen(const KvBlock& block, int token) { return std::min(block.positions + token, kPositionBlock); }

  // body.template operator()<Q>(token, head, first, rows) for all queries, Q heads of a token at a time, and all keys
  // or all values that they see, from row `first` of the block on. Several tokens share a conversion to f32. `after` is
  // where the rows lie that will be used after all of these.
  template <class T, class Body>
  static void each_rows(const Attend& query, const KvBlock& block, const void* begin, const void* after,
                        const Body& body) {
    const int64_t n = query.head_dim;
    const int all = seen(block, query.tokens - 1);
    alignas(64) float wide[kRowBlock * kMaxHeadDim];
    for (int first = 0; first < all; first += kRowBlock) {
      const T* from = static_cast<const T*>(begin) + first * block.stride;
      const T* next = first + kRowBlock < all ? from + kRowBlock * block.stride : static_cast<const T*>(after);
      for (int kv = 0; kv < query.kv_heads; ++kv, from += n, next += next ? n : 0) {
        const int count = std::min(all - first, kRowBlock);
        const auto pass = [&]<class U>(const U* at, int64_t stride) {
          for (int t = 0; t < query.tokens; ++t) {
            const int visible = std::min(seen(block, t) - first, count);
            if (visible <= 0) continue;
            const auto heads = [&]<int Q>(int h) {
              const Ahead ahead = {t + h == 0 ? reinterpret_cast<const std::byte*>(next) : nullptr,
                                   block.stride * int64_t(sizeof(T)), n * int64_t(sizeof(T))};
              body.template operator()<Q>(t, kv * query.heads + h, first, Rows<U>{at, stride, visible, ahead});
            };
            int h = 0;
            for (; h + 4 <= query.heads; h += 4) heads.template operator()<4>(h);
            for (; h + 2 <= query.heads; h += 2) heads.template operator()<2>(h);
            if (h < query.heads) heads.template operator()<1>(h);
          }
        };
        if (query.tokens == 1) {
          pass(from, block.stride);
        } else {
          for (int j = 0; j < count; ++j)
            each(n,
                 [&](int64_t i, auto part) { store(wide + j * n + i, load(from + j * block.stride + i, part), part); });
          pass(wide, n);
        }
      }
    }
  }

  // x = exp(x - m) of a block's scores, m = max of x, l = sum of the result.
  static void exponents(float* x, int count, float* m, float* l) {
    static_assert(kPositionBlock % kLanes == 0);
    const int padded = (count + kLanes - 1) / kLanes * kLanes;
    for (int j = count; j < padded; ++j) x[j] = -INFINITY;  // exp makes 0 of it
    F top = V::load(x), sum = V::zero();
    for (int j = kLanes; j < padded; j += kLanes) top = V::max(top, V::load(x + j));
    *m = V::top(top);
    for (int j = 0; j < padded; j += kLanes) {
      const F e = exp(V::sub(V::load(x + j), V::all(*m)));
      V::store(x + j, e);
      sum = V::add(sum, e);
    }
    *l = V::sum(sum);
  }

  template <class T>
  static void attend_rows(const Attend& query, const KvBlock& block, float* m, float* l, float* out) {
    const int64_t n = query.head_dim;
    const int all_heads = query.kv_heads * query.heads;
    float weights[kQueryBlock][kPositionBlock];
    each_rows<T>(query, block, block.keys, block.values, [&]<int Q>(int t, int head, int first, const auto& keys) {
      products<Q>(query.q + t * query.token_stride + head * query.q_stride, query.q_stride, keys, n,
                  &weights[t * all_heads + head][first]);
    });
    for (int kv = 0; kv < query.kv_heads; ++kv) {
      float key_scales[kPositionBlock], value_scales[kPositionBlock];
      for (int j = 0; j < seen(block, query.tokens - 1); ++j) {
        const int64_t at = j * block.scale_stride + kv;
        key_scales[j] = block.key_scales ? query.scale * block.key_scales[at] : query.scale;
        value_scales[j] = block.value_scales ? block.value_scales[at] : 1.0f;
      }
      for (int t = 0; t < query.tokens; ++t)
        for (int h = 0; h < query.heads; ++h) {
          const int index = t * all_heads + kv * query.heads + h, count = seen(block, t);
          float* w = weights[index];
          for (int j = 0; j < count; ++j) w[j] *= key_scales[j];
          exponents(w, count, m + index, l + index);
          for (int j = 0; j < count; ++j) w[j] *= value_scales[j];
        }
    }
    std::memset(out, 0, size_t(query.tokens * all_heads * n) * sizeof(float));
    each_rows<T>(query, block, block.values, nullptr, [&]<int Q>(int t, int head, int first, const auto& values) {
      const int index = t * all_heads + head;
      add_values<Q>(&weights[index][first], values, n, out + index * n);
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
    return {name,     matmul,      integers,   rms_norm, gated_rms_norm, l2_norm,    silu,
            silu_mul, sigmoid_mul, add_scaled, softmax,  convolve,       delta_rule, attend};
  }
};

}  // namespace swiftlet
