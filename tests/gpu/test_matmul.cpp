#include <algorithm>
#include <cmath>

#include "matrices.h"

using namespace swiftlet;
using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

constexpr float kUntouched = -7;
constexpr uint32_t kThreads = 128;

uint32_t row_tiles(int64_t rows) { return uint32_t((rows + kTile - 1) / kTile); }

struct Product {
  std::vector<float> y;
  std::vector<uint32_t> out;  // of each matrix, one float after the one before
  uint32_t stride;
};

Product multiply(Device& device, const std::vector<RandomMatrix>& matrices, const std::vector<float>& x,
                 uint32_t x_stride, int tokens, bool wide, bool units) {
  Product p;
  Bytes arena;
  MatmulArgs args{};
  uint32_t groups = 0, end = 0;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const Matrix& m = matrices[i].matrix;
    p.out.push_back(end);
    args.matrices[i] = {arena.add(matrices[i]), kNoBias, uint32_t(m.rows), row_tiles(m.rows), end};
    if (m.bias) args.matrices[i].bias = arena.add(m.bias, size_t(m.rows) * sizeof(float));
    groups += args.matrices[i].groups;
    end += uint32_t(m.rows) + 1;
  }
  p.stride = end + 2;
  args.columns = uint32_t(matrices[0].matrix.cols);
  args.tokens = uint32_t(tokens);
  args.x_stride = x_stride;
  args.y_stride = p.stride;
  const auto arena_memory = upload(device, arena.all), x_memory = upload(device, x),
             y_memory = upload(device, std::vector<float>(size_t(tokens) * p.stride, kUntouched));
  const Binding none{arena_memory.get()};
  run(device, {"matmul", "matmul"}, encoding(matrices[0].matrix, wide, {{kConstPooled, kArena}, {kConstMatrix, units}}),
      {none, {x_memory.get()}, {y_memory.get(), 0, true}, none, none, none}, args,
      {groups, uint32_t(tokens + kTile - 1) / kTile}, kThreads);
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

}  // namespace

TEST_CASE("matmul: every encoding, with and without matrix units; wide steps or not give the same bits") {
  on_devices([](Device& device) {
    uint32_t turn = 0;
    for (const Format& f : formats()) {
      CAPTURE(name_of(f));
      const bool units = lanes_of(f) == 16;
      for (const int64_t cols : widths(f)) {
        if (cols > 320) continue;
        CAPTURE(cols);
        const int tokens = 1 + int(turn * 5 % 13);
        const uint32_t x_stride = uint32_t(cols) + turn % 3;
        std::vector<RandomMatrix> w;
        w.emplace_back(f, 1 + turn % 37, cols, false, kWideAlignment);
        ++turn;
        const std::vector<float> x = random_floats(size_t(tokens) * x_stride, turn);
        const Product p = multiply(device, w, x, x_stride, tokens, false, units);
        check_product(p, w, x, x_stride, tokens);
        if (can_be_wide(w[0].matrix)) CHECK(multiply(device, w, x, x_stride, tokens, true, units).y == p.y);
      }
    }
  });
}

TEST_CASE("matmul: pieces of a matrix that are aligned to 1, 2 or 4 bytes") {
  on_devices([](Device& device) {
    for (const Format& f : {Format{Codec::MxFp4, DType::U8, 4, 32}, Format{Codec::MxFp8, DType::U8, 8, 32},
                            Format{Codec::NvFp4, DType::U8, 4, 16}, Format{Codec::Affine, DType::BF16, 4, 64},
                            Format{Codec::Affine, DType::F32, 6, 64}, Format{Codec::Plain, DType::BF16, 16, 0},
                            Format{Codec::Plain, DType::F32, 32, 0}}) {
      CAPTURE(name_of(f));
      for (const uint64_t alignment : {1, 2, 4}) {
        CAPTURE(alignment);
        std::vector<RandomMatrix> w;
        w.emplace_back(f, 9, 64, false, alignment);
        const std::vector<float> x = random_floats(2 * 64, 5);
        check_product(multiply(device, w, x, 64, 2, false, false), w, x, 64, 2);
      }
    }
  });
}

TEST_CASE("matmul: nothing is read beyond the end of weights and scales") {
  on_devices([](Device& device) {
    for (const Format& f : formats()) {
      CAPTURE(name_of(f));
      // 16 rows: the end of each piece is that of the memory, which is a multiple of 16.
      const int64_t cols = f.codec == Codec::Plain ? 41 : f.group_size, rows = 16;
      const RandomMatrix w(f, rows, cols);
      const std::vector<float> x = random_floats(size_t(cols), 4);
      Bytes arena;
      MatmulArgs args{};
      args.matrices[0] = {arena.add_scales_last(w.matrix), kNoBias, uint32_t(rows), 1, 0};
      args.columns = args.x_stride = uint32_t(cols);
      args.y_stride = uint32_t(rows);
      args.tokens = 1;
      const auto arena_memory = upload(device, arena.all), x_memory = upload(device, x),
                 y_memory = upload(device, std::vector<float>(size_t(rows), kUntouched));
      const Binding none{arena_memory.get()};
      run(device, {"matmul", "matmul"},
          encoding(w.matrix, false, {{kConstPooled, kArena}, {kConstMatrix, lanes_of(f) == 16}}),
          {none, {x_memory.get()}, {y_memory.get(), 0, true}, none, none, none}, args, {1}, kThreads);
      CHECK(worst_error(w.matrix, x.data(), cols, 1, download<float>(device, *y_memory).data(), rows) <
            kProductTolerance);
    }
  });
}

TEST_CASE(
    "matmul: any number of tokens and rows, up to four matrices, biases; a token has the same bits in any chunk") {
  on_devices([](Device& device) {
    const Format f{Codec::Affine, DType::BF16, 4, 32};
    const int64_t cols = 96;
    const int most = 130;
    const std::vector<float> x = random_floats(size_t(most * cols), 7);
    std::vector<RandomMatrix> w;
    for (const int64_t rows : {65, 1, 64, 7})
      w.emplace_back(f, rows, cols, rows % 2 == 1, kWideAlignment, uint32_t(rows));
    for (const bool units : {false, true}) {
      CAPTURE(units);
      const Product all = multiply(device, w, x, uint32_t(cols), most, true, units);
      check_product(all, w, x, uint32_t(cols), most);
      for (const int tokens : {1, 33, 64, 65}) {
        CAPTURE(tokens);
        const int first = 3;
        const std::vector<float> some(x.begin() + first * cols, x.begin() + (first + tokens) * cols);
        const Product p = multiply(device, w, some, uint32_t(cols), tokens, true, units);
        CHECK(std::equal(p.y.begin(), p.y.end(), all.y.begin() + first * int64_t(all.stride)));
      }
    }
  });
}

TEST_CASE("matmul: tiles of experts' tokens, whose matrices lie in slots of several memories") {
  on_devices([](Device& device) {
    uint32_t turn = 0;
    for (const Format& f : formats()) {
      if (f.group_size == 128) continue;
      CAPTURE(name_of(f));
      const bool units = lanes_of(f) == 16;
      CAPTURE(units);
      ++turn;
      const int64_t hidden = f.codec == Codec::Plain ? 35 : 64, intermediate = f.codec == Codec::Plain ? 66 : 64;
      const PooledExperts pool(device, f, 4, hidden, intermediate, kWideAlignment);
      // An expert can have several tiles, of 1 to kTile tokens.
      const std::vector<uint32_t> tile_experts = {2, 0, 0, 3};
      const std::vector<ExpertTile> tiles = {{0, 1}, {1, kTile}, {65, 3}, {68, 17}};
      const uint32_t pairs = 85, tokens = 40;
      std::vector<uint32_t> pair_tokens(pairs);
      for (uint32_t i = 0; i < pairs; ++i) pair_tokens[i] = i * 7 % tokens;
      const std::vector<float> x = random_floats(size_t(tokens * hidden), turn),
                               z = random_floats(size_t(pairs * intermediate), turn);
      const auto x_memory = upload(device, x), z_memory = upload(device, z), tile_memory = upload(device, tiles),
                 slots = pool.slots(device, tile_experts), token_memory = upload(device, pair_tokens),
                 gate_up = upload(device, std::vector<float>(size_t(pairs * 2 * intermediate), kUntouched)),
                 down = upload(device, std::vector<float>(size_t(pairs * hidden), kUntouched));
      const auto run_it = [&](MatmulArgs args, const Memory& from, const Memory& to, const Matrix& m) {
        args.columns = args.x_stride = uint32_t(m.cols);
        uint32_t groups = 0;
        for (ProjectedMatrix& matrix : args.matrices) groups += matrix.groups = row_tiles(matrix.rows);
        pool.use(device);
        run(device, {"matmul", "matmul"}, encoding(m, can_be_wide(m), {{kConstPooled, kListed}, {kConstMatrix, units}}),
            {{&from}, {&from}, {&to, 0, true}, {slots.get()}, {tile_memory.get()}, {token_memory.get()}}, args,
            {groups, uint32_t(tiles.size())}, kThreads);
      };
      MatmulArgs args{};
      args.matrices[0] = {pool.gate_place, kNoBias, uint32_t(intermediate), 0, 0};
      args.matrices[1] = {pool.up_place, kNoBias, uint32_t(intermediate), 0, uint32_t(intermediate)};
      args.y_stride = uint32_t(2 * intermediate);
      args.gather = 1;
      run_it(args, *x_memory, *gate_up, pool.gate[0].matrix);
      args = {};
      args.matrices[0] = {pool.down_place, kNoBias, uint32_t(hidden), 0, 0};
      args.y_stride = uint32_t(hidden);
      run_it(args, *z_memory, *down, pool.down[0].matrix);

      const std::vector<float> gate_up_y = download<float>(device, *gate_up), down_y = download<float>(device, *down);
      for (size_t tile = 0; tile < tiles.size(); ++tile) {
        const auto [first, count] = tiles[tile];
        const uint32_t e = tile_experts[tile];
        CAPTURE(tile);
        for (uint32_t i = first; i < first + count; ++i) {
          const float* in = x.data() + pair_tokens[i] * hidden;
          const float* y = gate_up_y.data() + i * 2 * intermediate;
          CHECK(worst_error(pool.gate[e].matrix, in, hidden, 1, y, 0) < kProductTolerance);
          CHECK(worst_error(pool.up[e].matrix, in, hidden, 1, y + intermediate, 0) < kProductTolerance);
        }
        CHECK(worst_error(pool.down[e].matrix, z.data() + first * intermediate, intermediate, int(count),
                          down_y.data() + first * hidden, hidden) < kProductTolerance);
      }
    }
  });
}

TEST_CASE("matmul: NaN and infinity come out of their own token and row, and of no other") {
  on_devices([](Device& device) {
    for (const Format& f : {Format{Codec::Plain, DType::BF16, 16, 0}, Format{Codec::Affine, DType::F32, 4, 32},
                            Format{Codec::NvFp4, DType::U8, 4, 16}})
      for (const bool units : {false, true}) {
        CAPTURE(name_of(f));
        CAPTURE(units);
        const int64_t cols = f.codec == Codec::Affine ? 64 : 48, rows = 5;
        const int tokens = 3;
        std::vector<RandomMatrix> w;
        w.emplace_back(f, rows, cols);
        std::vector<float> x = random_floats(size_t(tokens * cols), 8);
        for (const float bad : {NAN, INFINITY}) {
          x[size_t(2 * cols - 1)] = bad;
          const Product p = multiply(device, w, x, uint32_t(cols), tokens, false, units);
          for (int t = 0; t < tokens; ++t)
            for (int64_t r = 0; r < rows; ++r) CHECK(std::isfinite(p.y[size_t(t) * p.stride + size_t(r)]) == (t != 1));
        }
      }
  });
}

TEST_CASE("matmul: weights, vectors and results beyond 4 GiB") {
  on_devices([](Device& device) {
    const Format f{Codec::Affine, DType::BF16, 4, 64};
    const RandomMatrix w(f, 12, 64, true, kWideAlignment);
    const uint64_t base = (uint64_t(1) << 32) + 4096, bias = base + 65536;
    const auto arena = allocate_sparse(device, bias + 48);
    // Five rows of x and y, 2^30 floats apart: the last begins beyond 2^32 floats.
    const uint32_t tokens = 5, stride = 1u << 30;
    const auto rows = allocate_sparse(device, (uint64_t(tokens - 1) * stride + 64) * sizeof(float));
    if (!arena || !rows) return;
    device.write(*arena, base, w.memory.data(), w.memory.size());
    device.write(*arena, bias, w.bias.data(), 48);
    const std::vector<float> x = random_floats(tokens * 64, 9);
    for (uint64_t t = 0; t < tokens; ++t)
      device.write(*rows, t * stride * sizeof(float), x.data() + t * 64, 64 * sizeof(float));
    for (const bool units : {false, true}) {
      CAPTURE(units);
      const std::vector<Constant> constants = encoding(w.matrix, true, {{kConstPooled, kArena}, {kConstMatrix, units}});
      const Binding in_arena{arena.get()};
      MatmulArgs args{};
      args.matrices[0] = {place_of(w.matrix, base), bias, 12, 1, 0};
      args.columns = 64;
      args.tokens = tokens;
      args.x_stride = stride;
      args.y_stride = 12;
      const auto y = device.allocate(tokens * 12 * sizeof(float), Placement::Private);
      run(device, {"matmul", "matmul"}, constants,
          {in_arena, {rows.get()}, {y.get(), 0, true}, in_arena, in_arena, in_arena}, args, {1}, kThreads);
      const std::vector<float> expected = download<float>(device, *y);
      CHECK(worst_error(w.matrix, x.data(), 64, tokens, expected.data(), 12) < kProductTolerance);

      const auto x_memory = upload(device, x),
                 far = allocate_sparse(device, (uint64_t(tokens - 1) * stride + 12) * sizeof(float));
      if (!far) return;
      args.x_stride = 64;
      args.y_stride = stride;
      run(device, {"matmul", "matmul"}, constants,
          {in_arena, {x_memory.get()}, {far.get(), 0, true}, in_arena, in_arena, in_arena}, args, {1}, kThreads);
      for (uint64_t t = 0; t < tokens; ++t) {
        std::vector<float> row(12);
        device.read(*far, t * stride * sizeof(float), row.data(), 48);
        CHECK(std::equal(row.begin(), row.end(), expected.begin() + int64_t(t) * 12));
      }
    }
  });
}
