#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/error.h"
#include "matrices.h"

using namespace swiftlet;
using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;
using swiftlet::test::dequantize;

namespace {

constexpr float kUntouched = -7;

struct Split {
  uint32_t lanes = 32, passes = 1, threads = 64;
  uint32_t rows_of_group() const { return threads / lanes * kRows * passes; }
  uint32_t groups(int64_t rows) const { return (uint32_t(rows) + rows_of_group() - 1) / rows_of_group(); }
};

// What matvec makes of up to four matrices, whose results lie one float apart in a row of y.
struct Product {
  std::vector<float> y;
  std::vector<uint32_t> out;  // of each matrix
  uint32_t stride;
};

Product multiply(Device& device, const std::vector<RandomMatrix>& matrices, const std::vector<float>& x,
                 uint32_t x_stride, int tokens, bool wide, const Split& split) {
  Product p;
  Bytes arena;
  MatvecArgs args{};
  uint32_t groups = 0, end = 0;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const Matrix& m = matrices[i].matrix;
    p.out.push_back(end);
    args.matrices[i] = {arena.add(matrices[i]), kNoBias, uint32_t(m.rows), split.groups(m.rows), end};
    if (m.bias) args.matrices[i].bias = arena.add(m.bias, size_t(m.rows) * sizeof(float));
    groups += split.groups(m.rows);
    end += uint32_t(m.rows) + 1;
  }
  p.stride = end + 2;
  args.columns = uint32_t(matrices[0].matrix.cols);
  args.x_stride = x_stride;
  args.y_stride = p.stride;
  args.passes = split.passes;
  const auto arena_memory = upload(device, arena.all), x_memory = upload(device, x),
             y_memory = upload(device, std::vector<float>(size_t(tokens) * p.stride, kUntouched));
  run(device, {"matvec", "matvec"}, encoding(matrices[0].matrix, wide, {{kConstLanes, split.lanes}}),
      {{arena_memory.get()}, {x_memory.get()}, {y_memory.get(), 0, true}}, args, {groups, uint32_t(tokens)},
      split.threads);
  p.y = download<float>(device, *y_memory);
  return p;
}

// All elements are right, and nothing else is written.
void check_product(const Product& p, const std::vector<RandomMatrix>& matrices, const std::vector<float>& x,
                   uint32_t x_stride, int tokens) {
  int64_t written = 0;
  for (size_t i = 0; i < matrices.size(); ++i) {
    CHECK(worst_error(matrices[i].matrix, x.data(), x_stride, tokens, p.y.data() + p.out[i], p.stride) <
          kProductTolerance);
    written += tokens * matrices[i].matrix.rows;
  }
  CHECK(std::count(p.y.begin(), p.y.end(), kUntouched) == int64_t(p.y.size()) - written);
}

std::vector<RandomMatrix> one(const Format& f, int64_t rows, int64_t cols, bool bias = false, uint64_t alignment = 0) {
  std::vector<RandomMatrix> matrices;
  matrices.emplace_back(f, rows, cols, bias, alignment);
  return matrices;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

// silu(gate x) * (up x) within what errors of kProductTolerance in both products may do.
void check_gate_up(const Matrix& gate, const Matrix& up, const float* x, const float* y) {
  for (int64_t r = 0; r < gate.rows; ++r) {
    const std::vector<float> gate_row = dequantize(gate, r), up_row = dequantize(up, r);
    double g = 0, u = 0, g_size = 0, u_size = 0;
    for (size_t c = 0; c < size_t(gate.cols); ++c) {
      g += double(gate_row[c]) * double(x[c]);
      u += double(up_row[c]) * double(x[c]);
      g_size += std::abs(double(gate_row[c]) * double(x[c]));
      u_size += std::abs(double(up_row[c]) * double(x[c]));
    }
    // The slope of silu is at most 1.1; silu itself in f32 adds a few roundings.
    const double allowed = kProductTolerance * (1.1 * g_size * std::abs(u) + u_size * std::abs(silu(g))) +
                           1e-6 * std::abs(silu(g) * u) + 1e-10;
    CHECK(std::abs(double(y[r]) - silu(g) * u) <= allowed);
  }
}

}  // namespace

TEST_CASE("matvec: every encoding, whatever the width, lanes and tokens; wide steps or not give the same bits") {
  on_devices([](Device& device) {
    uint32_t turn = 0;
    for (const Format& f : formats()) {
      CAPTURE(name_of(f));
      for (const int64_t cols : widths(f)) {
        CAPTURE(cols);
        const Split split{lanes_of(f), 1 + turn % 2};
        CAPTURE(split.passes);
        const int tokens = turn % 4 ? 1 : 3;
        const uint32_t x_stride = uint32_t(cols) + 4 * (turn % 2);
        ++turn;
        const std::vector<RandomMatrix> w = one(f, 1 + (cols + turn) % 23, cols, false, kWideAlignment);
        const std::vector<float> x = random_floats(size_t(tokens) * x_stride, uint32_t(cols));
        const Product p = multiply(device, w, x, x_stride, tokens, false, split);
        check_product(p, w, x, x_stride, tokens);
        if (can_be_wide(w[0].matrix)) CHECK(multiply(device, w, x, x_stride, tokens, true, split).y == p.y);
      }
    }
  });
}

TEST_CASE("matvec: pieces of a matrix that are aligned to 1, 2 or 4 bytes") {
  on_devices([](Device& device) {
    for (const Format& f : {Format{Codec::MxFp4, DType::U8, 4, 32}, Format{Codec::MxFp8, DType::U8, 8, 32},
                            Format{Codec::NvFp4, DType::U8, 4, 16}, Format{Codec::Affine, DType::BF16, 4, 64},
                            Format{Codec::Affine, DType::F16, 3, 32}, Format{Codec::Affine, DType::F32, 6, 64},
                            Format{Codec::Plain, DType::BF16, 16, 0}, Format{Codec::Plain, DType::F32, 32, 0}}) {
      CAPTURE(name_of(f));
      for (const uint64_t alignment : {1, 2, 4}) {
        CAPTURE(alignment);
        const std::vector<RandomMatrix> w = one(f, 9, 192, false, alignment);
        CHECK_FALSE(can_be_wide(w[0].matrix));
        const std::vector<float> x = random_floats(192, 5);
        check_product(multiply(device, w, x, 192, 1, false, {lanes_of(f)}), w, x, 192, 1);
      }
    }
  });
}

TEST_CASE("matvec: nothing is read beyond the end of weights and scales") {
  on_devices([](Device& device) {
    for (const Format& f : formats()) {
      CAPTURE(name_of(f));
      // 16 rows: the end of each piece is that of the memory, which is a multiple of 16.
      const int64_t cols = f.codec == Codec::Plain ? 41 : f.group_size, rows = 16;
      const RandomMatrix w(f, rows, cols);
      const Split split{lanes_of(f)};
      const std::vector<float> x = random_floats(size_t(cols), 4);
      Bytes arena;
      MatvecArgs args{};
      args.matrices[0] = {arena.add_scales_last(w.matrix), kNoBias, uint32_t(rows), split.groups(rows), 0};
      args.columns = args.x_stride = uint32_t(cols);
      args.y_stride = uint32_t(rows);
      args.passes = 1;
      const auto arena_memory = upload(device, arena.all), x_memory = upload(device, x),
                 y_memory = upload(device, std::vector<float>(size_t(rows), kUntouched));
      run(device, {"matvec", "matvec"}, encoding(w.matrix, false, {{kConstLanes, split.lanes}}),
          {{arena_memory.get()}, {x_memory.get()}, {y_memory.get(), 0, true}}, args, {args.matrices[0].groups},
          split.threads);
      CHECK(worst_error(w.matrix, x.data(), cols, 1, download<float>(device, *y_memory).data(), rows) <
            kProductTolerance);
    }
  });
}

TEST_CASE("matvec: more columns than a threadgroup holds at once") {
  on_devices([](Device& device) {
    struct Case {
      Format format;
      int64_t cols;
    };
    for (const auto& [f, cols] : {Case{{Codec::Affine, DType::BF16, 4, 64}, kMaxColumnTile + 64},
                                  Case{{Codec::Affine, DType::F16, 8, 32}, 2 * kMaxColumnTile},
                                  Case{{Codec::NvFp4, DType::U8, 4, 16}, kMaxColumnTile + 16},
                                  Case{{Codec::Plain, DType::F32, 32, 0}, 2 * kMaxColumnTile + 3},
                                  Case{{Codec::Plain, DType::BF16, 16, 0}, kMaxColumnTile - 1}}) {
      CAPTURE(name_of(f));
      const std::vector<RandomMatrix> w = one(f, 29, cols, true, kWideAlignment);
      const std::vector<float> x = random_floats(size_t(cols), 6);
      const Product p = multiply(device, w, x, uint32_t(cols), 1, false, {32, 3, 64});
      check_product(p, w, x, uint32_t(cols), 1);
      if (can_be_wide(w[0].matrix)) CHECK(multiply(device, w, x, uint32_t(cols), 1, true, {32, 3, 64}).y == p.y);
    }
  });
}

TEST_CASE("matvec: up to four matrices in one dispatch, with and without bias; each as if it were alone") {
  on_devices([](Device& device) {
    const int64_t cols = 320;
    const int tokens = 2;
    const std::vector<float> x = random_floats(size_t(tokens * cols), 7);
    for (const Format& f : {Format{Codec::Affine, DType::BF16, 4, 64}, Format{Codec::Plain, DType::F16, 16, 0}})
      for (const size_t count : {1, 2, 3, 4}) {
        CAPTURE(count);
        std::vector<RandomMatrix> all;
        for (size_t i = 0; i < count; ++i) {
          const int64_t rows = std::vector<int64_t>{13, 1, 40, 32}[i];
          all.emplace_back(f, rows, cols, i % 2 == count % 2, kWideAlignment, uint32_t(i));
        }
        const Product p = multiply(device, all, x, uint32_t(cols), tokens, true, {16});
        check_product(p, all, x, uint32_t(cols), tokens);
        for (size_t i = 0; i < count; ++i) {
          const int64_t rows = all[i].matrix.rows;
          std::vector<RandomMatrix> alone;
          alone.push_back(std::move(all[i]));
          for (int t = 0; t < tokens; ++t) {
            const std::vector<float> one_x(x.begin() + t * cols, x.begin() + (t + 1) * cols);
            const Product q = multiply(device, alone, one_x, uint32_t(cols), 1, true, {16, 2});
            CHECK(std::equal(q.y.begin(), q.y.begin() + rows, p.y.begin() + t * p.stride + p.out[i]));
          }
          all[i] = std::move(alone[0]);
        }
      }
  });
}

TEST_CASE("matvec: NaN and infinity come out of their own token and row, and of no other") {
  on_devices([](Device& device) {
    for (const Format& f : formats()) {
      if (f.group_size > 64) continue;
      CAPTURE(name_of(f));
      const int64_t cols = f.codec == Codec::Plain ? 67 : 3 * f.group_size, rows = 5;
      std::vector<RandomMatrix> w = one(f, rows, cols);
      std::vector<float> x = random_floats(size_t(2 * cols), 8);
      for (const float bad : {NAN, INFINITY}) {
        x[size_t(2 * cols - 1)] = bad;
        const Product p = multiply(device, w, x, uint32_t(cols), 2, false, {lanes_of(f)});
        for (int64_t r = 0; r < rows; ++r) {
          CHECK(std::isfinite(p.y[size_t(r)]));
          CHECK_FALSE(std::isfinite(p.y[p.stride + size_t(r)]));
        }
      }
    }
  });
}

TEST_CASE("matvec: weights, vectors and results beyond 4 GiB") {
  on_devices([](Device& device) {
    const Format f{Codec::Affine, DType::BF16, 4, 64};
    const RandomMatrix w(f, 12, 128, true, kWideAlignment);
    const uint64_t base = (uint64_t(1) << 32) + 4096, bias = base + 65536;
    const auto arena = allocate_sparse(device, bias + 48);
    // Five rows of x and y, 2^30 floats apart: the last begins beyond 2^32 floats.
    const int tokens = 5;
    const uint32_t stride = 1u << 30;
    const auto rows = allocate_sparse(device, (uint64_t(tokens - 1) * stride + 128) * sizeof(float));
    if (!arena || !rows) return;
    device.write(*arena, base, w.memory.data(), w.memory.size());
    device.write(*arena, bias, w.bias.data(), 48);
    const std::vector<float> x = random_floats(size_t(tokens) * 128, 9);
    for (uint64_t t = 0; t < tokens; ++t)
      device.write(*rows, t * stride * sizeof(float), x.data() + t * 128, 128 * sizeof(float));
    MatvecArgs args{};
    const Split split{8};
    args.matrices[0] = {place_of(w.matrix, base), bias, 12, split.groups(12), 0};
    args.columns = 128;
    args.x_stride = stride;
    args.y_stride = 16;
    args.passes = 1;
    const auto y = device.allocate(tokens * 16 * sizeof(float), Placement::Private);
    run(device, {"matvec", "matvec"}, encoding(w.matrix, true, {{kConstLanes, 8}}),
        {{arena.get()}, {rows.get()}, {y.get(), 0, true}}, args, {args.matrices[0].groups, tokens}, split.threads);
    const std::vector<float> expected = download<float>(device, *y);
    CHECK(worst_error(w.matrix, x.data(), 128, tokens, expected.data(), 16) < kProductTolerance);

    const auto x_memory = upload(device, x);
    args.x_stride = 128;
    args.y_stride = stride;
    run(device, {"matvec", "matvec"}, encoding(w.matrix, true, {{kConstLanes, 8}}),
        {{arena.get()}, {x_memory.get()}, {rows.get(), 0, true}}, args, {args.matrices[0].groups, tokens},
        split.threads);
    for (uint64_t t = 0; t < tokens; ++t) {
      std::vector<float> row(12);
      device.read(*rows, t * stride * sizeof(float), row.data(), 48);
      CHECK(std::equal(row.begin(), row.end(), expected.begin() + int64_t(t) * 16));
    }
  });
}

TEST_CASE("gate_up: weights and vectors beyond 4 GiB") {
  on_devices([](Device& device) {
    const Format f{Codec::Affine, DType::F32, 5, 64};
    const RandomMatrix gate(f, 12, 64, false, 4, 1), up(f, 12, 64, false, 4, 2);
    const uint64_t gate_base = (uint64_t(1) << 32) + 4096, up_base = gate_base + 65536;
    const auto arena = allocate_sparse(device, up_base + up.memory.size());
    const uint32_t tokens = 5, stride = 1u << 30;
    const auto rows = allocate_sparse(device, (uint64_t(tokens - 1) * stride + 64) * sizeof(float));
    if (!arena || !rows) return;
    device.write(*arena, gate_base, gate.memory.data(), gate.memory.size());
    device.write(*arena, up_base, up.memory.data(), up.memory.size());
    const std::vector<float> x = random_floats(size_t(tokens) * 64, 9);
    for (uint64_t t = 0; t < tokens; ++t)
      device.write(*rows, t * stride * sizeof(float), x.data() + t * 64, 64 * sizeof(float));
    const Split split{lanes_of(f)};
    const auto y = device.allocate(tokens * 12 * sizeof(float), Placement::Private);
    run(device, {"matvec", "gate_up"},
        encoding(gate.matrix, false, {{kConstLanes, split.lanes}, {kConstPooled, kArena}}),
        {{arena.get()}, {rows.get()}, {y.get(), 0, true}, {arena.get()}, {arena.get()}},
        GateUpArgs{place_of(gate.matrix, gate_base), place_of(up.matrix, up_base), 12, 64, stride, 1, 1},
        {split.groups(2 * 12), tokens}, split.threads);
    const std::vector<float> out = download<float>(device, *y);
    for (uint32_t t = 0; t < tokens; ++t) check_gate_up(gate.matrix, up.matrix, x.data() + t * 64, out.data() + t * 12);
  });
}

TEST_CASE("gate_up: of every encoding, for each token; wide steps or not give the same bits") {
  on_devices([](Device& device) {
    uint32_t turn = 0;
    for (const Format& f : formats()) {
      CAPTURE(name_of(f));
      const int64_t cols = f.codec == Codec::Plain ? 96 + turn % 2 : f.group_size * (turn % 2 ? 3 : 4);
      const int64_t rows = 1 + turn % 19;
      const int tokens = 1 + int(turn % 2);
      const Split split{lanes_of(f), 1 + turn % 2};
      ++turn;
      const RandomMatrix gate(f, rows, cols, false, kWideAlignment, 1), up(f, rows, cols, false, kWideAlignment, 2);
      Bytes arena;
      const MatrixPlace gate_place = arena.add(gate), up_place = arena.add(up);
      const std::vector<float> x = random_floats(size_t(tokens * cols), turn);
      const auto arena_memory = upload(device, arena.all), x_memory = upload(device, x);
      const auto run_it = [&](bool wide) {
        const auto out = upload(device, std::vector<float>(size_t(tokens * rows), kUntouched));
        run(device, {"matvec", "gate_up"},
            encoding(gate.matrix, wide, {{kConstLanes, split.lanes}, {kConstPooled, kArena}}),
            {{arena_memory.get()}, {x_memory.get()}, {out.get(), 0, true}, {arena_memory.get()}, {arena_memory.get()}},
            GateUpArgs{gate_place, up_place, uint32_t(rows), uint32_t(cols), uint32_t(cols), split.passes, 1},
            {split.groups(2 * rows), uint32_t(tokens)}, split.threads);
        return download<float>(device, *out);
      };
      const std::vector<float> y = run_it(false);
      for (int t = 0; t < tokens; ++t) check_gate_up(gate.matrix, up.matrix, x.data() + t * cols, y.data() + t * rows);
      if (can_be_wide(gate.matrix)) CHECK(run_it(true) == y);
    }
  });
}

TEST_CASE("gate_up and expert_down: experts in slots of several memories, pairs in any order") {
  on_devices([](Device& device) {
    uint32_t turn = 0;
    for (const Format& f : formats()) {
      if (f.group_size == 128) continue;
      CAPTURE(name_of(f));
      const uint32_t experts = 5, k = 3, tokens = 2;
      // Of two of them also with more columns than a threadgroup holds.
      const bool large = f.codec == Codec::Affine && f.dtype == DType::F32 && f.group_size == 64;
      const int64_t unit = std::max(f.group_size, 1), most = kMaxColumnTile + 64;
      const int64_t hidden = f.codec == Codec::Plain ? 70 : large && f.bits == 8 ? most : 2 * unit;
      const int64_t intermediate = f.codec == Codec::Plain ? 33 : large && f.bits == 2 ? most : unit;
      const Split split{lanes_of(f), large ? 2 : 1 + turn % 2};
      const bool wide = turn % 2 == 1;
      ++turn;
      const PooledExperts pool(device, f, experts, hidden, intermediate, kWideAlignment);
      const bool gate_wide = wide && can_be_wide(pool.gate[0].matrix),
                 down_wide = wide && can_be_wide(pool.down[0].matrix);
      const std::vector<uint32_t> chosen = {4, 0, 2, 1, 3, 4};  // [tokens, k]
      const bool listed = turn % 4 < 2;
      std::vector<uint32_t> pairs = {5, 0, 3, 2, 4};  // pair 1 is another dispatch's
      if (!listed) pairs = {0, 1, 2, 3, 4, 5};        // all, in order
      std::vector<uint32_t> of_pairs;
      for (const uint32_t pair : pairs) of_pairs.push_back(chosen[pair]);
      const std::vector<float> x = random_floats(size_t(tokens * hidden), turn);
      const auto x_memory = upload(device, x), slots = pool.slots(device, of_pairs),
                 pairs_memory = upload(device, pairs),
                 middle = upload(device, std::vector<float>(size_t(tokens * k * intermediate), kUntouched)),
                 out = upload(device, std::vector<float>(size_t(tokens * k * hidden), kUntouched));
      const Constant pooled{kConstPooled, listed ? kListed : kRouted};
      pool.use(device);
      run(device, {"matvec", "gate_up"}, encoding(pool.gate[0].matrix, gate_wide, {{kConstLanes, split.lanes}, pooled}),
          {{x_memory.get()}, {x_memory.get()}, {middle.get(), 0, true}, {slots.get()}, {pairs_memory.get()}},
          GateUpArgs{pool.gate_place, pool.up_place, uint32_t(intermediate), uint32_t(hidden), uint32_t(hidden),
                     split.passes, k},
          {split.groups(2 * intermediate), uint32_t(pairs.size())}, split.threads);
      const std::vector<float> activated = download<float>(device, *middle);
      pool.use(device);
      run(device, {"matvec", "expert_down"},
          encoding(pool.down[0].matrix, down_wide, {{kConstLanes, split.lanes}, pooled}),
          {{middle.get()}, {out.get(), 0, true}, {slots.get()}, {pairs_memory.get()}},
          DownArgs{pool.down_place, uint32_t(hidden), uint32_t(intermediate), split.passes},
          {split.groups(hidden), uint32_t(pairs.size())}, split.threads);
      const std::vector<float> y = download<float>(device, *out);
      for (const uint32_t pair : pairs) {
        CAPTURE(pair);
        const uint32_t e = chosen[pair];
        const float* in = activated.data() + pair * intermediate;
        check_gate_up(pool.gate[e].matrix, pool.up[e].matrix, x.data() + pair / k * hidden, in);
        CHECK(worst_error(pool.down[e].matrix, in, intermediate, 1, y.data() + pair * hidden, hidden) <
              kProductTolerance);
      }
      const int64_t left = tokens * k - int64_t(pairs.size());
      CHECK(std::count(activated.begin(), activated.end(), kUntouched) == left * intermediate);
      CHECK(std::count(y.begin(), y.end(), kUntouched) == left * hidden);
    }
  });
}
