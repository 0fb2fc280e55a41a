// The contract of cpu_ops.h over random shapes: what the reference computes, the same bits however a call is cut, and
// nothing written between the rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa.h"
#include "base/dtype.h"
#include "tensors.h"

namespace swiftlet {
namespace {

using test::relative_error;
using test::same_bits;

constexpr float kGap = 1234.5f;  // what lies between rows

struct Random {
  std::mt19937 engine;
  explicit Random(unsigned seed) : engine(seed) {}
  int upto(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); }
  std::vector<float> floats(int64_t n, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> values(size_t(n), 0.f);
    for (float& value : values) value = normal(engine);
    return values;
  }
  // Rows of n random floats, `stride` apart and with kGap between; the last ends where its floats do.
  std::vector<float> rows(int64_t count, int64_t n, int64_t stride) {
    std::vector<float> values(size_t((count - 1) * stride + n), kGap);
    for (int64_t r = 0; r < count; ++r) std::ranges::copy(floats(n), values.begin() + r * stride);
    return values;
  }
  // Pieces of a random length that make up `total`.
  std::vector<int> pieces(int total) {
    std::vector<int> all;
    for (; total > 0; total -= all.back()) all.push_back(upto(1, std::min(total, 20)));
    return all;
  }
};

bool gaps_untouched(const std::vector<float>& rows, int64_t n, int64_t stride) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (int64_t(i) % stride >= n && rows[i] != kGap) return false;
  return true;
}

// A head of the delta rule with all that it reads.
struct DeltaCase {
  int64_t value_dim, key_dim, stride, gate_stride, out_stride;
  int tokens;
  std::vector<float> qkv, decay, beta, state;

  DeltaCase(Random& random, int64_t values, int64_t keys, int count)
      : value_dim(values),
        key_dim(keys),
        stride(2 * keys + values + random.upto(0, 5)),
        gate_stride(random.upto(1, 3)),
        out_stride(values + random.upto(0, 5)),
        tokens(count),
        qkv(random.rows(count, 2 * keys + values, stride)),
        decay(random.rows(count, 1, gate_stride)),
        beta(random.rows(count, 1, gate_stride)),
        state(random.floats(values * keys)) {
    for (int t = 0; t < count; ++t) {
      float &d = decay[size_t(t * gate_stride)], &b = beta[size_t(t * gate_stride)];
      d = 1 / (1 + std::exp(-d - 2));
      b = 1 / (1 + std::exp(-b));
      for (float* row : {qkv.data() + t * stride, qkv.data() + t * stride + keys}) {
        double squares = 1e-6;
        for (int64_t i = 0; i < keys; ++i) squares += double(row[i]) * row[i];
        for (int64_t i = 0; i < keys; ++i) row[i] /= float(std::sqrt(squares));
      }
    }
  }

  struct Result {
    std::vector<float> out, state;
  };
  // In calls of so many tokens, each of the state's rows in parts of so many.
  Result run(const CpuOps& ops, const std::vector<int>& calls, const std::vector<int>& parts) const {
    Result result = {std::vector<float>(size_t((tokens - 1) * out_stride + value_dim), kGap), state};
    int first = 0;
    for (int count : calls) {
      const float* row = qkv.data() + first * stride;
      int64_t value = 0;
      for (int part : parts) {
        ops.delta_rule({.state = result.state.data() + value * key_dim,
                        .value_dim = part,
                        .key_dim = key_dim,
                        .tokens = count,
                        .q = row,
                        .k = row + key_dim,
                        .v = row + 2 * key_dim + value,
                        .stride = stride,
                        .decay = decay.data() + first * gate_stride,
                        .beta = beta.data() + first * gate_stride,
                        .gate_stride = gate_stride,
                        .out = result.out.data() + first * out_stride + value,
                        .out_stride = out_stride});
        value += part;
      }
      first += count;
    }
    return result;
  }
};

TEST_CASE("delta rule: any shape, cut by tokens and by rows of the state") {
  Random random(1);
  for (int tokens : {1, 2, 3, 15, 16, 17, 31, 32, 33, 40}) {
    for (int round = 0; round < 4; ++round) {
      const int value_dim = random.upto(1, 70), key_dim = random.upto(1, 70);
      const DeltaCase head(random, value_dim, key_dim, tokens);
      const std::vector<int> one_by_one(size_t(tokens), 1), calls = random.pieces(tokens),
                                                            parts = random.pieces(value_dim);
      const auto expected = head.run(ops_for("reference"), {tokens}, {value_dim});
      for (const std::string& isa : cpu_isas()) {
        CAPTURE(isa);
        CAPTURE(tokens);
        CAPTURE(value_dim);
        CAPTURE(key_dim);
        const CpuOps& ops = ops_for(isa);
        const auto whole = head.run(ops, {tokens}, {value_dim});
        CHECK(relative_error(whole.out, expected.out) < 1e-5);
        CHECK(relative_error(whole.state, expected.state) < 1e-5);
        CHECK(gaps_untouched(whole.out, value_dim, head.out_stride));
        for (const auto& [by_tokens, by_rows] : {std::pair(one_by_one, std::vector{value_dim}),
                                                 {calls, std::vector{value_dim}},
                                                 {{tokens}, parts},
                                                 {calls, parts}}) {
          const auto cut = head.run(ops, by_tokens, by_rows);
          CHECK(same_bits(cut.out, whole.out));
          CHECK(same_bits(cut.state, whole.state));
        }
      }
    }
  }
}

TEST_CASE("delta rule: a row of the state that is not finite stays alone") {
  Random random(2);
  const int value_dim = 37, key_dim = 21, tokens = 35, sick = 9;
  DeltaCase head(random, value_dim, key_dim, tokens);
  head.state[sick * key_dim + 4] = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& isa : cpu_isas()) {
    CAPTURE(isa);
    const auto result = head.run(ops_for(isa), {tokens}, {value_dim});
    for (int t = 0; t < tokens; ++t)
      for (int r = 0; r < value_dim; ++r) CHECK(std::isnan(result.out[size_t(t * head.out_stride + r)]) == (r == sick));
  }
}

TEST_CASE("convolution: any shape, cut by tokens and by channels") {
  Random random(3);
  for (int kernel : {1, 2, 4, 5, kMaxConvKernel})
    for (int tokens : {1, 2, 5, 16, 40})
      for (int channels : {1, 3, 19, 128, 129, 300}) {
        const int64_t stride = channels + random.upto(0, 9);
        const std::vector<float> w = random.floats(channels * kernel, 0.5f);
        const std::vector<float> rows = random.rows(tokens + kernel - 1, channels, stride);
        const auto run = [&](const std::string& isa, const std::vector<int>& calls, const std::vector<int>& parts) {
          std::vector<float> result = rows;
          int64_t first = 0;
          for (int count : calls) {
            int64_t channel = 0;
            for (int part : parts) {
              ops_for(isa).convolve(result.data() + first * stride + channel, stride, count,
                                    w.data() + channel * kernel, kernel, part);
              channel += part;
            }
            first += count;
          }
          return result;
        };
        const std::vector<int> calls = random.pieces(tokens), parts = random.pieces(channels);
        const std::vector<float> expected = run("reference", {tokens}, {channels});
        for (const std::string& isa : cpu_isas()) {
          CAPTURE(isa);
          CAPTURE(kernel);
          CAPTURE(tokens);
          CAPTURE(channels);
          const std::vector<float> whole = run(isa, {tokens}, {channels});
          CHECK(relative_error(whole, expected) < 1e-5);
          CHECK(gaps_untouched(whole, channels, stride));
          const auto untouched = [&](const std::vector<float>& r) {  // the rows that only later tokens make
            return std::vector<float>(r.end() - std::max(kernel - 2, 0) * stride - (kernel > 1) * channels, r.end());
          };
          CHECK(untouched(whole) == untouched(rows));
          CHECK(same_bits(run(isa, calls, {channels}), whole));
          CHECK(same_bits(run(isa, {tokens}, parts), whole));
          CHECK(same_bits(run(isa, calls, parts), whole));
        }
      }
}

TEST_CASE("add_scaled: each product and each sum rounded, NaN and infinity go through") {
  Random random(4);
  for (int n = 1; n < 70; ++n) {
    std::vector<float> x = random.floats(n), y = random.floats(n);
    x[size_t(n / 2)] = n % 3 ? INFINITY : NAN;
    const float scale = random.floats(1)[0];
    std::vector<float> expected = y;
    ops_for("reference").add_scaled(expected.data(), x.data(), scale, n);
    for (const std::string& isa : cpu_isas()) {
      CAPTURE(isa);
      std::vector<float> actual = y;
      ops_for(isa).add_scaled(actual.data(), x.data(), scale, n);
      CHECK(std::isnan(actual[size_t(n / 2)]) == (n % 3 == 0));
      actual[size_t(n / 2)] = expected[size_t(n / 2)];  // the sign of a NaN is the processor's
      CHECK(same_bits(actual, expected));
    }
  }
}

TEST_CASE("attention over a block: any shape, cut by tokens and by heads") {
  Random random(5);
  for (int round = 0; round < 60; ++round) {
    const int kv_heads = random.upto(1, 3), heads = random.upto(1, 5);
    const int all_heads = kv_heads * heads, tokens = random.upto(1, std::min(4, kQueryBlock / all_heads));
    const int64_t dim = random.upto(1, 80), q_stride = dim + random.upto(0, dim);
    const int64_t token_stride = all_heads * q_stride + random.upto(0, 3), stride = kv_heads * dim;
    const int positions = random.upto(1, kPositionBlock);
    const std::vector<float> q = random.rows(tokens, all_heads * q_stride, token_stride);
    const std::vector<float> keys = random.floats(kPositionBlock * stride),
                             values = random.floats(int64_t(keys.size()));
    const std::vector<float> scales = random.floats(kPositionBlock * kv_heads, 0.02f);
    std::vector<uint16_t> half_keys, half_values;
    std::vector<int8_t> byte_keys, byte_values;
    for (size_t i = 0; i < keys.size(); ++i) {
      half_keys.push_back(float_to_f16(keys[i]));
      half_values.push_back(float_to_f16(values[i]));
      byte_keys.push_back(int8_t(random.upto(-127, 127)));
      byte_values.push_back(int8_t(random.upto(-127, 127)));
    }
    const Attend query = {.q = q.data(),
                          .q_stride = q_stride,
                          .token_stride = token_stride,
                          .tokens = tokens,
                          .kv_heads = kv_heads,
                          .heads = heads,
                          .head_dim = dim,
                          .scale = 1 / std::sqrt(float(dim))};
    for (KvType type : {KvType::F32, KvType::F16, KvType::Int8}) {
      const bool bytes = type == KvType::Int8;
      const auto pick = [&](const auto& floats, const auto& halves, const auto& codes) -> const void* {
        return bytes ? (const void*)codes.data() : type == KvType::F16 ? (const void*)halves.data() : floats.data();
      };
      const KvBlock block = {.type = type,
                             .keys = pick(keys, half_keys, byte_keys),
                             .values = pick(values, half_values, byte_values),
                             .key_scales = bytes ? scales.data() : nullptr,
                             .value_scales = bytes ? scales.data() : nullptr,
                             .stride = stride,
                             .scale_stride = kv_heads,
                             .positions = positions};
      const auto run = [&](const std::string& isa, const Attend& part, const KvBlock& seen) {
        const int64_t queries = part.tokens * part.kv_heads * part.heads;
        std::vector<float> result(size_t(queries * (dim + 2)));
        ops_for(isa).attend(part, seen, result.data(), result.data() + queries, result.data() + 2 * queries);
        return result;
      };
      const std::vector<float> expected = run("reference", query, block);
      for (const std::string& isa : cpu_isas()) {
        CAPTURE(isa);
        CAPTURE(round);
        CAPTURE(dim);
        const std::vector<float> whole = run(isa, query, block);
        CHECK(relative_error(whole, expected) < 1e-5);
        // One query at a time.
        std::vector<float> cut(whole.size());
        const int queries = tokens * all_heads;
        for (int t = 0; t < tokens; ++t)
          for (int h = 0; h < all_heads; ++h) {
            const int index = t * all_heads + h, kv = h / heads;
            Attend one = query;
            one.q += t * token_stride + h * q_stride;
            one.tokens = one.kv_heads = one.heads = 1;
            KvBlock of_head = block;
            const int64_t begin = kv * dim * (bytes ? 1 : type == KvType::F16 ? 2 : 4);
            of_head.keys = static_cast<const std::byte*>(block.keys) + begin;
            of_head.values = static_cast<const std::byte*>(block.values) + begin;
            if (bytes) of_head.key_scales += kv, of_head.value_scales += kv;
            of_head.positions = std::min(positions + t, kPositionBlock);
            const std::vector<float> result = run(isa, one, of_head);
            cut[size_t(index)] = result[0];
            cut[size_t(queries + index)] = result[1];
            std::copy_n(result.begin() + 2, dim, cut.begin() + 2 * queries + index * dim);
          }
        CHECK(same_bits(cut, whole));
      }
    }
  }
}

}  // namespace
}  // namespace swiftlet
