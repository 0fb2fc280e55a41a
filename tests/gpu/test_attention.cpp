#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "backend/cpu/blocks.h"
#include "backend/gpu/scratch.h"
#include "base/dtype.h"
#include "device_under_test.h"
#include "metal/kernel_args.h"

using namespace swiftlet;
using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

constexpr uint32_t kTypes[] = {kKvF32, kKvF16, kKvInt8};

struct Dims {
  uint32_t heads, kv_heads, head_dim;
  uint32_t shared() const { return heads / kv_heads; }
};

size_t element_bytes(uint32_t type) { return type == kKvF32 ? 4 : type == kKvF16 ? 2 : 1; }

// Keys or values of one layer: what lies in the cache, and what it means.
struct Rows {
  std::vector<std::byte> bytes;
  std::vector<float> scales;  // int8: of each row
  std::vector<float> exact;
};

Rows random_rows(uint32_t type, size_t rows, uint32_t dim, uint32_t seed) {
  Rows r;
  r.exact = random_floats(rows * dim, seed);
  r.bytes.resize(rows * dim * element_bytes(type));
  r.scales.assign(rows, 1);
  for (size_t i = 0; i < r.exact.size(); ++i) {
    float& x = r.exact[i];
    if (type == kKvF32) std::memcpy(r.bytes.data() + 4 * i, &x, 4);
    if (type == kKvF16) {
      const uint16_t half = float_to_f16(x);
      std::memcpy(r.bytes.data() + 2 * i, &half, 2);
      x = f16_to_float(half);
    }
    if (type == kKvInt8) {
      float& scale = r.scales[i / dim];
      scale = 0.01f + 0.001f * float(i / dim % 31);
      const int8_t code = int8_t(std::clamp(std::lrint(x / scale), -127L, 127L));
      std::memcpy(r.bytes.data() + i, &code, 1);
      x = float(code) * scale;
    }
  }
  return r;
}

// A cache in the device's memory.
struct Cache {
  uint32_t type;
  Dims dims;
  Rows k, v;
  std::unique_ptr<Memory> keys, values, key_scales, value_scales;

  Cache(Device& device, uint32_t kv_type, const Dims& d, size_t positions)
      : type(kv_type),
        dims(d),
        k(random_rows(type, positions * d.kv_heads, d.head_dim, 1)),
        v(random_rows(type, positions * d.kv_heads, d.head_dim, 2)),
        keys(upload(device, k.bytes)),
        values(upload(device, v.bytes)),
        key_scales(upload(device, k.scales)),
        value_scales(upload(device, v.scales)) {}
};

uint32_t q_stride(const Dims& d) { return d.heads * 2 * d.head_dim + 3; }  // something else follows

AttendArgs attend_args(const Dims& d, uint64_t position, uint32_t tokens, uint32_t splits = kSplits,
                       uint32_t block = kSplitPositions) {
  return {.heads = d.heads,
          .kv_heads = d.kv_heads,
          .head_dim = d.head_dim,
          .stride = q_stride(d),
          .splits = splits,
          .block = block,
          .position = position,
          .tokens = tokens,
          .scale = 1.0f / std::sqrt(float(d.head_dim))};
}

std::string size_suffix(uint32_t dim) {
  for (const uint32_t size : {32, 64, 128, 256})
    if (dim <= size) return std::to_string(size);
  return "512";
}

// [tokens, heads, head_dim] by way of splits.
std::vector<float> attend(Device& device, const Cache& cache, const std::vector<float>& q, const AttendArgs& a) {
  const Dims& d = cache.dims;
  uint32_t splits = 0;
  for (uint64_t p = a.position; p < a.position + a.tokens; ++p) {
    const uint64_t all = uint64_t(a.block) * a.splits;
    splits = std::max(splits, uint32_t(p / ((p + all) / all * a.block)) + 1);
  }
  REQUIRE(splits <= a.splits);
  const size_t parts = size_t(a.tokens) * d.heads * a.splits;
  const auto q_memory = upload(device, q), part = upload(device, std::vector<float>(parts * d.head_dim, NAN)),
             part_ml = upload(device, std::vector<float>(parts * 2, NAN)),
             out = device.allocate(size_t(a.tokens) * d.heads * d.head_dim * sizeof(float), Placement::Private);
  const std::vector<Constant> constants = {{kConstKvType, cache.type}};
  const std::string name = "attend_" + size_suffix(std::max(d.head_dim, 128u));
  run(device, {"attention", name.c_str()}, constants,
      {{q_memory.get()},
       {cache.keys.get()},
       {cache.values.get()},
       {cache.key_scales.get()},
       {cache.value_scales.get()},
       {part.get(), 0, true},
       {part_ml.get(), 0, true}},
      a, {splits, d.kv_heads, a.tokens}, 32 * d.shared());
  run(device, {"attention", "attend_join"}, constants,
      {{q_memory.get()}, {part.get()}, {part_ml.get()}, {out.get(), 0, true}}, a, {d.heads, a.tokens}, 64);
  return download<float>(device, *out);
}

// The same by tiles of queries.
std::vector<float> attend_tile(Device& device, const Cache& cache, const std::vector<float>& q, const AttendArgs& a) {
  const Dims& d = cache.dims;
  const auto q_memory = upload(device, q),
             out = device.allocate(size_t(a.tokens) * d.heads * d.head_dim * sizeof(float), Placement::Private);
  const std::string name = "attend_tile_" + size_suffix(d.head_dim);
  run(device, {"attention", name.c_str()}, {{kConstKvType, cache.type}},
      {{q_memory.get()},
       {cache.keys.get()},
       {cache.values.get()},
       {cache.key_scales.get()},
       {cache.value_scales.get()},
       {out.get(), 0, true}},
      a, {(a.tokens * d.shared() + kQueryTile - 1) / kQueryTile, d.kv_heads}, 128);
  return download<float>(device, *out);
}

// Largest error over all tokens and heads, relative to 1: values are of about 1.
double attend_error(const Cache& cache, const std::vector<float>& q, const AttendArgs& a,
                    const std::vector<float>& out) {
  const Dims& d = cache.dims;
  double worst = 0;
  for (uint32_t t = 0; t < a.tokens; ++t)
    for (uint32_t h = 0; h < d.heads; ++h) {
      const float* query = q.data() + t * a.stride + h * 2 * d.head_dim;
      const size_t positions = size_t(a.position) + t + 1;
      const auto row = [&](const Rows& rows, size_t p) {
        return rows.exact.data() + (p * d.kv_heads + h / d.shared()) * d.head_dim;
      };
      std::vector<double> weights(positions);
      double top = -INFINITY, sum = 0;
      for (size_t p = 0; p < positions; ++p) {
        for (uint32_t i = 0; i < d.head_dim; ++i) weights[p] += double(query[i]) * double(row(cache.k, p)[i]);
        weights[p] /= std::sqrt(double(d.head_dim));
        top = std::max(top, weights[p]);
      }
      for (double& w : weights) sum += w = std::exp(w - top);
      std::vector<double> exact(d.head_dim);
      for (size_t p = 0; p < positions; ++p)
        for (uint32_t i = 0; i < d.head_dim; ++i) exact[i] += weights[p] / sum * double(row(cache.v, p)[i]);
      for (uint32_t i = 0; i < d.head_dim; ++i) {
        const double gate = 1 / (1 + std::exp(-double(query[d.head_dim + i])));
        const double error = std::abs(out[(size_t(t) * d.heads + h) * d.head_dim + i] - exact[i] * gate);
        worst = std::isnan(error) ? INFINITY : std::max(worst, error);
      }
    }
  return worst;
}

constexpr double kAttendTolerance = 4e-6;

std::vector<float> tokens_of(const std::vector<float>& q, uint32_t stride, uint32_t first, uint32_t count) {
  return {q.begin() + int64_t(first) * stride, q.begin() + int64_t(first + count) * stride};
}

// Projections of some tokens, and what attention_store makes of them.
struct Store {
  AttentionStoreArgs args;
  std::vector<float> in, q_norm, k_norm, rotary;
  uint32_t tokens;

  Store(const Dims& d, uint32_t rotary_dim, uint64_t position, uint32_t token_count) : tokens(token_count) {
    const uint32_t k = d.heads * 2 * d.head_dim, v = k + d.kv_heads * d.head_dim;
    args = {d.heads, d.kv_heads, d.head_dim, rotary_dim, v + d.kv_heads * d.head_dim + 1, k, v, position, 1e-6f};
    in = random_floats(size_t(tokens) * args.stride, 3);
    q_norm = random_floats(d.head_dim, 4);
    k_norm = random_floats(d.head_dim, 5);
    for (uint32_t t = 0; t < tokens; ++t) {
      const Rotary angles(int64_t(position + t), int(rotary_dim), 1e7);
      for (uint32_t j = 0; j < rotary_dim / 2; ++j) rotary.insert(rotary.end(), {angles.cosine[j], angles.sine[j]});
    }
  }

  // Writes to the cache, and returns the projections as they are then.
  std::vector<float> run_on(Device& device, uint32_t type, const Memory& keys, const Memory& values,
                            const Memory& key_scales, const Memory& value_scales) const {
    const auto in_memory = upload(device, in), q_weight = upload(device, q_norm), k_weight = upload(device, k_norm),
               angles = upload(device, rotary.empty() ? std::vector<float>(2) : rotary);
    run(device, {"attention", "attention_store"}, {{kConstKvType, type}},
        {{in_memory.get(), 0, true},
         {q_weight.get()},
         {k_weight.get()},
         {angles.get()},
         {&keys, 0, true},
         {&values, 0, true},
         {&key_scales, 0, true},
         {&value_scales, 0, true}},
        args, {args.heads + 2 * args.kv_heads, tokens}, 32);
    return download<float>(device, *in_memory);
  }

  // A query or key after norm and rotary.
  std::vector<double> rotated(uint32_t t, uint32_t offset, const std::vector<float>& weight) const {
    const uint32_t dim = args.head_dim, pairs = args.rotary_dim / 2;
    const float* row = in.data() + size_t(t) * args.stride + offset;
    double squares = 0;
    for (uint32_t i = 0; i < dim; ++i) squares += double(row[i]) * double(row[i]);
    std::vector<double> x(dim);
    for (uint32_t i = 0; i < dim; ++i) x[i] = row[i] / std::sqrt(squares / dim + double(args.eps)) * double(weight[i]);
    for (uint32_t j = 0; j < pairs; ++j) {
      const double cosine = rotary[2 * (t * pairs + j)], sine = rotary[2 * (t * pairs + j) + 1];
      const double u = x[j], v = x[j + pairs];
      x[j] = u * cosine - v * sine;
      x[j + pairs] = u * sine + v * cosine;
    }
    return x;
  }
  std::vector<double> value(uint32_t t, uint32_t head) const {
    const float* row = in.data() + size_t(t) * args.stride + args.v + head * args.head_dim;
    return {row, row + args.head_dim};
  }
};

// One row of the cache holds x, within what its type can say and a few roundings of f32.
void check_row(Device& device, uint32_t type, const Memory& rows, const Memory& scales, uint64_t row,
               const std::vector<double>& x) {
  const size_t dim = x.size();
  std::vector<std::byte> bytes(dim * element_bytes(type));
  float scale = 1;
  device.read(rows, row * bytes.size(), bytes.data(), bytes.size());
  if (type == kKvInt8) device.read(scales, row * sizeof(float), &scale, sizeof scale);
  double top = 0;
  for (const double v : x) top = std::max(top, std::abs(v));
  if (type == kKvInt8) CHECK(std::abs(double(scale) - top / 127) <= 1e-6 * top);
  for (size_t i = 0; i < dim; ++i) {
    double got = 0, allowed = 2e-6 * top;
    if (type == kKvF32) {
      float v;
      std::memcpy(&v, bytes.data() + 4 * i, 4);
      got = v;
    } else if (type == kKvF16) {
      uint16_t half;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      got = f16_to_float(half);
      allowed += std::abs(x[i]) * 0x1p-11 + 0x1p-25;
    } else {
      got = double(int8_t(bytes[i])) * double(scale);
      allowed += 0.5 * double(scale);
    }
    CHECK(std::abs(got - x[i]) <= allowed);
  }
}

}  // namespace

TEST_CASE(
    "attention_store: norm and rotary of queries and keys; keys and values in the cache's type, and nothing else") {
  on_devices([](Device& device) {
    struct Case {
      Dims dims;
      uint32_t rotary_dim;
    };
    for (const uint32_t type : kTypes)
      for (const auto& [d, rotary_dim] : {Case{{4, 2, 32}, 8}, Case{{3, 3, 20}, 0}, Case{{2, 1, 256}, 64},
                                          Case{{1, 1, 512}, 512}, Case{{8, 1, 48}, 48}}) {
        CAPTURE(type);
        CAPTURE(d.head_dim);
        const uint32_t tokens = 3, position = 1000, capacity = 1005;
        const Store store(d, rotary_dim, position, tokens);
        const size_t rows = size_t(capacity) * d.kv_heads, row_bytes = d.head_dim * element_bytes(type);
        const std::vector<std::byte> before(rows * row_bytes, std::byte{0x55});
        const auto keys = upload(device, before), values = upload(device, before),
                   key_scales = upload(device, std::vector<float>(rows, -1)),
                   value_scales = upload(device, std::vector<float>(rows, -1));
        const std::vector<float> after = store.run_on(device, type, *keys, *values, *key_scales, *value_scales);
        for (uint32_t t = 0; t < tokens; ++t) {
          for (uint32_t h = 0; h < d.heads; ++h) {
            const size_t at = size_t(t) * store.args.stride + h * 2 * d.head_dim;
            const std::vector<double> q = store.rotated(t, h * 2 * d.head_dim, store.q_norm);
            for (uint32_t i = 0; i < d.head_dim; ++i) {
              CHECK(std::abs(double(after[at + i]) - q[i]) <= 1e-5);
              CHECK(after[at + d.head_dim + i] == store.in[at + d.head_dim + i]);  // the gate
            }
          }
          const size_t k = size_t(t) * store.args.stride + store.args.k, end = size_t(t + 1) * store.args.stride;
          CHECK(std::equal(after.begin() + int64_t(k), after.begin() + int64_t(end), store.in.begin() + int64_t(k)));
          for (uint32_t h = 0; h < d.kv_heads; ++h) {
            const uint64_t row = uint64_t(position + t) * d.kv_heads + h;
            check_row(device, type, *keys, *key_scales, row,
                      store.rotated(t, store.args.k + h * d.head_dim, store.k_norm));
            check_row(device, type, *values, *value_scales, row, store.value(t, h));
          }
        }
        const size_t begin = position * d.kv_heads * row_bytes, end = begin + tokens * d.kv_heads * row_bytes;
        for (const Memory* memory : {keys.get(), values.get()}) {
          const std::vector<std::byte> now = download<std::byte>(device, *memory);
          const auto untouched = [](std::byte b) { return b == std::byte{0x55}; };
          CHECK(std::all_of(now.begin(), now.begin() + int64_t(begin), untouched));
          CHECK(std::all_of(now.begin() + int64_t(end), now.end(), untouched));
        }
        for (const Memory* memory : {key_scales.get(), value_scales.get()}) {
          const std::vector<float> now = download<float>(device, *memory);
          CHECK(std::count(now.begin(), now.end(), -1.0f) ==
                int64_t(type == kKvInt8 ? rows - tokens * d.kv_heads : rows));
        }
      }
  });
}

TEST_CASE("attention_store: NaN and infinity are not forgotten; a row of zeros is one of zeros") {
  on_devices([](Device& device) {
    const Dims d{1, 1, 40};
    for (const uint32_t type : kTypes)
      for (const float bad : {NAN, INFINITY, 0.0f}) {
        CAPTURE(type);
        CAPTURE(bad);
        Store store(d, 8, 0, 2);
        float* row = store.in.data() + store.args.stride;
        if (bad == 0)
          std::fill_n(row + store.args.v, d.head_dim, 0.0f);
        else
          row[store.args.k + 39] = row[store.args.v + 5] = bad;
        const auto keys = device.allocate(2 * 40 * element_bytes(type), Placement::Private),
                   values = device.allocate(2 * 40 * element_bytes(type), Placement::Private),
                   key_scales = device.allocate(8, Placement::Private),
                   value_scales = device.allocate(8, Placement::Private);
        store.run_on(device, type, *keys, *values, *key_scales, *value_scales);
        check_row(device, type, *values, *value_scales, 0, store.value(0, 0));
        if (bad == 0) {
          check_row(device, type, *values, *value_scales, 1, store.value(1, 0));
          continue;
        }
        for (const auto& [rows, scales, place] :
             {std::tuple(keys.get(), key_scales.get(), 39), std::tuple(values.get(), value_scales.get(), 5)}) {
          const size_t at = size_t(40 + place);
          if (type == kKvF32) CHECK_FALSE(std::isfinite(download<float>(device, *rows)[at]));
          if (type == kKvF16) CHECK_FALSE(std::isfinite(f16_to_float(download<uint16_t>(device, *rows)[at])));
          if (type == kKvInt8) CHECK(std::isnan(download<float>(device, *scales)[1]));
        }
      }
  });
}

TEST_CASE("attend: head sizes, groups of heads and types of the cache") {
  on_devices([](Device& device) {
    double worst = 0;
    for (const uint32_t type : kTypes)
      for (const Dims& d : {Dims{2, 2, 32}, Dims{1, 1, 20}, Dims{6, 2, 48}, Dims{32, 1, 64}, Dims{4, 4, 100},
                            Dims{16, 2, 128}, Dims{12, 1, 256}, Dims{2, 1, 200}, Dims{3, 1, 512}, Dims{1, 1, 300}}) {
        CAPTURE(type);
        CAPTURE(d.head_dim);
        CAPTURE(d.shared());
        const uint32_t tokens = 2;
        const AttendArgs a = attend_args(d, 70, tokens);
        const Cache cache(device, type, d, 72);
        const std::vector<float> q = random_floats(size_t(tokens) * a.stride, 3);
        const double error = attend_error(cache, q, a, attend(device, cache, q, a));
        CHECK(error < kAttendTolerance);
        worst = std::max(worst, error);
      }
    MESSAGE(device.description(), ": largest error ", worst);
  });
}

TEST_CASE("attend: positions at the ends of splits, alone and in a chunk that crosses them, with the same bits") {
  on_devices([](Device& device) {
    const Dims d{2, 1, 32};
    const uint32_t all = kSplits * kSplitPositions;  // then the backend's splits get longer
    struct Case {
      uint32_t splits, block, first, last;
    };
    for (const auto& [splits, block, first, last] :
         {Case{kSplits, kSplitPositions, 0, 1},
          Case{kSplits, kSplitPositions, kSplitPositions - 2, kSplitPositions + 1},
          Case{kSplits, kSplitPositions, all - 3, all + 2}, Case{64, 64, 4094, 4097}, Case{64, 64, 127, 128},
          Case{4, 8, 0, 7}, Case{4, 8, 28, 35}, Case{4, 8, 60, 67}, Case{4, 8, 92, 99}, Case{1, 3, 0, 7}}) {
      CAPTURE(first);
      const uint32_t tokens = last - first + 1;
      const AttendArgs a = attend_args(d, first, tokens, splits, block);
      const Cache cache(device, kKvF32, d, last + 1);
      const std::vector<float> q = random_floats(size_t(tokens) * a.stride, 3);
      const std::vector<float> together = attend(device, cache, q, a);
      CHECK(attend_error(cache, q, a, together) < kAttendTolerance);
      for (uint32_t t = 0; t < tokens; ++t) {
        const std::vector<float> alone =
            attend(device, cache, tokens_of(q, a.stride, t, 1), attend_args(d, first + t, 1, splits, block));
        CHECK(std::equal(alone.begin(), alone.end(), together.begin() + int64_t(t) * d.heads * d.head_dim));
      }
    }
  });
}

TEST_CASE("attend and attend_tile: large scores do not overflow; a position with NaN makes NaN of all that see it") {
  on_devices([](Device& device) {
    const Dims d{4, 2, 64};
    const uint32_t tokens = 6;
    const AttendArgs a = attend_args(d, 0, tokens);
    const Cache cache(device, kKvF32, d, tokens);
    std::vector<float> q = random_floats(size_t(tokens) * a.stride, 3);
    for (uint32_t h = 0; h < d.heads; ++h)
      for (uint32_t i = 0; i < d.head_dim; ++i) q[5 * a.stride + h * 2 * d.head_dim + i] *= 1000;
    // Scores of thousands have errors of f32 of 1e-4, which exp makes relative errors of the weights.
    CHECK(attend_error(cache, q, a, attend(device, cache, q, a)) < 2e-3);
    CHECK(attend_error(cache, q, a, attend_tile(device, cache, q, a)) < 2e-3);

    const float nan = NAN;
    for (Memory* rows : {cache.keys.get(), cache.values.get()}) {
      const size_t at = (size_t(4) * d.kv_heads * d.head_dim + 7) * sizeof(float);  // position 4, the first KV head
      float before;
      device.read(*rows, at, &before, 4);
      device.write(*rows, at, &nan, 4);
      for (const bool tile : {false, true}) {
        CAPTURE(tile);
        const std::vector<float> out = tile ? attend_tile(device, cache, q, a) : attend(device, cache, q, a);
        for (uint32_t t = 0; t < tokens; ++t)
          for (uint32_t h = 0; h < d.heads; ++h)
            if (t >= 4 || !tile)  // tiles multiply values of later tokens of their chunk with 0
              CHECK(std::isnan(out[(t * d.heads + h) * d.head_dim + 7]) == (t >= 4 && h < d.shared()));
      }
      device.write(*rows, at, &before, 4);
    }
  });
}

TEST_CASE("attend and attend_tile: a row of int8 that was not finite makes NaN of those that see it") {
  on_devices([](Device& device) {
    const Dims d{2, 2, 32};
    const uint32_t tokens = 3;
    const AttendArgs a = attend_args(d, 0, tokens);
    const Cache cache(device, kKvInt8, d, tokens);
    const std::vector<float> q = random_floats(size_t(tokens) * a.stride, 3);
    const float nan = NAN;
    for (Memory* scales : {cache.key_scales.get(), cache.value_scales.get()}) {
      const size_t at = 3 * sizeof(float);  // position 1, head 1
      float before;
      device.read(*scales, at, &before, sizeof before);
      device.write(*scales, at, &nan, sizeof nan);
      for (const bool tile : {false, true}) {
        const std::vector<float> out = tile ? attend_tile(device, cache, q, a) : attend(device, cache, q, a);
        for (uint32_t i = 0; i < out.size(); ++i)
          if (i >= 2 * 32 || !tile) CHECK(std::isnan(out[i]) == (i >= 2 * 32 && i / 32 % 2 == 1));
      }
      device.write(*scales, at, &before, sizeof before);
    }
  });
}

TEST_CASE("attend_tile: head sizes, groups of heads and types of the cache; as step by step") {
  on_devices([](Device& device) {
    double worst = 0;
    for (const uint32_t type : kTypes)
      for (const Dims& d : {Dims{2, 2, 32}, Dims{3, 1, 20}, Dims{6, 2, 48}, Dims{8, 1, 64}, Dims{4, 4, 100},
                            Dims{10, 2, 128}, Dims{12, 1, 256}, Dims{17, 1, 200}}) {
        CAPTURE(type);
        CAPTURE(d.head_dim);
        CAPTURE(d.shared());
        const uint32_t tokens = 11;
        const AttendArgs a = attend_args(d, 27, tokens);
        const Cache cache(device, type, d, 27 + tokens);
        const std::vector<float> q = random_floats(size_t(tokens) * a.stride, 3);
        const std::vector<float> out = attend_tile(device, cache, q, a), steps = attend(device, cache, q, a);
        const double error = attend_error(cache, q, a, out);
        CHECK(error < kAttendTolerance);
        worst = std::max(worst, error);
        for (size_t i = 0; i < out.size(); ++i) CHECK(std::abs(out[i] - steps[i]) <= kAttendTolerance);
      }
    MESSAGE(device.description(), ": largest error ", worst);
  });
}

TEST_CASE("attend_tile: a chunk that is cut at any place gives the same bits") {
  on_devices([](Device& device) {
    for (const Dims& d : {Dims{3, 1, 32}, Dims{2, 2, 64}}) {
      const uint32_t tokens = 70;
      const AttendArgs all = attend_args(d, 0, tokens);
      const Cache cache(device, kKvF16, d, tokens);
      const std::vector<float> q = random_floats(size_t(tokens) * all.stride, 3);
      const std::vector<float> whole = attend_tile(device, cache, q, all);
      CHECK(attend_error(cache, q, all, whole) < kAttendTolerance);
      for (const uint32_t cut : {1, 5, 31, 32, 33, 48, 69}) {
        CAPTURE(cut);
        std::vector<float> parts = attend_tile(device, cache, tokens_of(q, all.stride, 0, cut), attend_args(d, 0, cut));
        const std::vector<float> rest =
            attend_tile(device, cache, tokens_of(q, all.stride, cut, tokens - cut), attend_args(d, cut, tokens - cut));
        parts.insert(parts.end(), rest.begin(), rest.end());
        CHECK(parts == whole);
      }
    }
  });
}

TEST_CASE("attention: rows of the cache beyond 4 GiB") {
  on_devices([](Device& device) {
    // The row of (position, head) is position * kv_heads + head. With very many KV heads, of which one or two are
    // looked at, a few positions are far apart: the last lies beyond 2^32 elements.
    const Dims d{1u << 20, 1u << 20, 256}, near{1, 1, 256};
    const uint32_t positions = 18;
    for (const uint32_t type : kTypes) {
      CAPTURE(type);
      const uint64_t rows = uint64_t(positions - 1) * d.kv_heads + 1, row_bytes = d.head_dim * element_bytes(type);
      const auto keys = allocate_sparse(device, rows * row_bytes), values = allocate_sparse(device, rows * row_bytes),
                 key_scales = allocate_sparse(device, rows * sizeof(float)),
                 value_scales = allocate_sparse(device, rows * sizeof(float));
      if (!keys || !values || !key_scales || !value_scales) return;
      const Cache cache(device, type, near, positions);
      for (uint64_t p = 0; p < positions; ++p) {
        device.write(*keys, p * d.kv_heads * row_bytes, cache.k.bytes.data() + p * row_bytes, row_bytes);
        device.write(*values, p * d.kv_heads * row_bytes, cache.v.bytes.data() + p * row_bytes, row_bytes);
        device.write(*key_scales, p * d.kv_heads * sizeof(float), &cache.k.scales[p], sizeof(float));
        device.write(*value_scales, p * d.kv_heads * sizeof(float), &cache.v.scales[p], sizeof(float));
      }
      AttendArgs a = attend_args(near, positions - 1, 1);
      const std::vector<float> q = random_floats(a.stride, 3);
      const std::vector<float> expected = attend_tile(device, cache, q, a);
      AttendArgs far = a;
      far.heads = d.heads;
      far.kv_heads = d.kv_heads;
      const auto q_memory = upload(device, q), part = device.allocate(kSplits * 256 * 4, Placement::Private),
                 part_ml = device.allocate(kSplits * 8, Placement::Private),
                 out = device.allocate(256 * 4, Placement::Private);
      run(device, {"attention", "attend_tile_256"}, {{kConstKvType, type}},
          {{q_memory.get()},
           {keys.get()},
           {values.get()},
           {key_scales.get()},
           {value_scales.get()},
           {out.get(), 0, true}},
          far, {1}, 128);
      CHECK(download<float>(device, *out) == expected);
      run(device, {"attention", "attend_256"}, {{kConstKvType, type}},
          {{q_memory.get()},
           {keys.get()},
           {values.get()},
           {key_scales.get()},
           {value_scales.get()},
           {part.get(), 0, true},
           {part_ml.get(), 0, true}},
          far, {(positions - 1) / kSplitPositions + 1}, 32);
      run(device, {"attention", "attend_join"}, {{kConstKvType, type}},
          {{q_memory.get()}, {part.get()}, {part_ml.get()}, {out.get(), 0, true}}, a, {1}, 64);
      const std::vector<float> joined = download<float>(device, *out);
      CHECK(attend_error(cache, q, a, joined) < kAttendTolerance);

      // What is stored there comes to lie there.
      Store store({1, 1, 256}, 64, positions - 1, 1);
      store.args.kv_heads = 1;
      store.args.position = rows - 1;
      store.run_on(device, type, *keys, *values, *key_scales, *value_scales);
      check_row(device, type, *keys, *key_scales, rows - 1, store.rotated(0, store.args.k, store.k_norm));
      check_row(device, type, *values, *value_scales, rows - 1, store.value(0, 0));
    }
  });
}

TEST_CASE("attention: projections beyond 4 GiB") {
  on_devices([](Device& device) {
    // Five tokens whose projections are 2^30 floats apart: those of the last begin beyond 2^32 floats.
    const Dims d{2, 1, 32};
    const uint32_t tokens = 5, stride = 1u << 30;
    const Store store(d, 8, 0, tokens);
    const auto far = allocate_sparse(device, (uint64_t(tokens - 1) * stride + store.args.stride) * sizeof(float));
    if (!far) return;
    const auto write = [&](const std::vector<float>& rows, uint32_t row_floats) {
      for (uint64_t t = 0; t < tokens; ++t)
        device.write(*far, t * stride * sizeof(float), rows.data() + t * row_floats, row_floats * sizeof(float));
    };
    write(store.in, store.args.stride);
    const Cache near(device, kKvF32, d, tokens), cache(device, kKvF32, d, tokens);
    const std::vector<float> stored =
        store.run_on(device, kKvF32, *near.keys, *near.values, *near.key_scales, *near.value_scales);
    const auto q_weight = upload(device, store.q_norm), k_weight = upload(device, store.k_norm),
               angles = upload(device, store.rotary);
    AttentionStoreArgs args = store.args;
    args.stride = stride;
    run(device, {"attention", "attention_store"}, {{kConstKvType, kKvF32}},
        {{far.get(), 0, true},
         {q_weight.get()},
         {k_weight.get()},
         {angles.get()},
         {cache.keys.get(), 0, true},
         {cache.values.get(), 0, true},
         {cache.key_scales.get(), 0, true},
         {cache.value_scales.get(), 0, true}},
        args, {d.heads + 2 * d.kv_heads, tokens}, 32);
    CHECK(download<float>(device, *cache.keys) == download<float>(device, *near.keys));
    CHECK(download<float>(device, *cache.values) == download<float>(device, *near.values));
    for (uint64_t t = 0; t < tokens; ++t) {
      std::vector<float> row(store.args.stride);
      device.read(*far, t * stride * sizeof(float), row.data(), row.size() * sizeof(float));
      CHECK(row == tokens_of(stored, store.args.stride, uint32_t(t), 1));
    }

    AttendArgs a = attend_args(d, 0, tokens);
    const std::vector<float> q = random_floats(size_t(tokens) * a.stride, 3);
    write(q, a.stride);
    const std::vector<float> split = attend(device, cache, q, a), tiled = attend_tile(device, cache, q, a);
    const size_t parts = size_t(tokens) * d.heads * a.splits;
    const auto part = device.allocate(parts * d.head_dim * sizeof(float), Placement::Private),
               part_ml = device.allocate(parts * 2 * sizeof(float), Placement::Private),
               out = device.allocate(split.size() * sizeof(float), Placement::Private);
    a.stride = stride;
    const std::vector<Constant> constants = {{kConstKvType, kKvF32}};
    run(device, {"attention", "attend_128"}, constants,
        {{far.get()},
         {cache.keys.get()},
         {cache.values.get()},
         {cache.key_scales.get()},
         {cache.value_scales.get()},
         {part.get(), 0, true},
         {part_ml.get(), 0, true}},
        a, {1, d.kv_heads, tokens}, 32 * d.shared());
    run(device, {"attention", "attend_join"}, constants,
        {{far.get()}, {part.get()}, {part_ml.get()}, {out.get(), 0, true}}, a, {d.heads, tokens}, 64);
    CHECK(download<float>(device, *out) == split);
    run(device, {"attention", "attend_tile_32"}, constants,
        {{far.get()},
         {cache.keys.get()},
         {cache.values.get()},
         {cache.key_scales.get()},
         {cache.value_scales.get()},
         {out.get(), 0, true}},
        a, {1, d.kv_heads}, 128);
    CHECK(download<float>(device, *out) == tiled);
  });
}
