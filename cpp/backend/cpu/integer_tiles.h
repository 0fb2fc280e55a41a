// The matmul of integers.h for many tokens, where a unit multiplies tiles: 16 tokens at a time with two sets of rows.
// `I` is as in integer_kernel.h, with load, load_bytes and whole. Internal linkage, as there.
//
// What the unit leaves are the exact sums of a block, so they join the totals by the same formula in the same order,
// and an element has the bits that IntegerKernel gives it.
#pragma once

#include "backend/cpu/integer_kernel.h"

namespace swiftlet {
namespace {

constexpr int kTileTokens = 16;
constexpr int kTileSets = 2;
constexpr int kTileBlocks = 8;   // whose codes are taken at a time, so that they stay in L1
constexpr int kMaxTokens = 128;  // whose totals are kept

// A panel: the codes of a block of a set, a byte each, as interleave.h has those of 8 bits. Those of 4 bits are
// unpacked to that.
constexpr int64_t kPanelBytes = block_bytes(8);

// Exact sums of a block of a set, still in halves.
struct TileSums {
  alignas(64) int32_t high[kTileTokens][kSetRows], low[kTileTokens][kSetRows];
};

// Tiles(tokens) prepares this thread's unit for tiles of so many tokens, until the object goes.
// Tiles::unpack(codes, panel): 4-bit codes of a block of a set to kPanelBytes, aligned to 64.
// Tiles::load(x, stride): `tokens` blocks of x, `stride` bytes apart, for the next products.
// Tiles::multiply<set>(panel, sums): sums of what was loaded with a panel.
template <class I, class Tiles>
class TileKernel {
  static constexpr int kLanes = I::kLanes;
  static constexpr int kVectors = kSetRows / kLanes;

 public:
  TileKernel(const Matrix& matrix, const std::byte* x) : w_(matrix), blocks_(matrix.cols / kBlockColumns), x_(x) {}

  void run(int tokens, float* y, int64_t y_stride, int64_t begin, int64_t end) const {
    const size_t set_floats = set_scratch_floats(w_), sets = size_t(w_.rows + kSetRows - 1) / kSetRows;
    float* scratch = thread_scratch(kTileSets * set_floats);
    for (int first = 0; first < tokens; first += kMaxTokens) {
      const int count = std::min(kMaxTokens, tokens - first);
      const int tiles = (count + kTileTokens - 1) / kTileTokens;
      const int tile_tokens = (count + tiles - 1) / tiles;  // what a tile costs grows with its tokens
      const Tiles unit(tile_tokens);
      for (int64_t set = begin / kSetRows; set * kSetRows < end; set += kTileSets) {
        RowSet rows[kTileSets];
        for (int s = 0; s < kTileSets; ++s)  // the last one may come twice; then its second result is not stored
          rows[s] = row_set(w_, std::min<int64_t>(set + s, int64_t(sets) - 1), scratch + size_t(s) * set_floats);
        alignas(64) float totals[kMaxTokens][kTileSets][kSetRows];
        multiply(rows, first, count, tile_tokens, totals);
        const int64_t row = set * kSetRows;
        float* out = y + first * y_stride;
        if (!w_.bias && begin <= row && row + kTileSets * kSetRows <= end)
          for (int t = 0; t < count; ++t) std::memcpy(out + t * y_stride + row, totals[t], sizeof(totals[t]));
        else
          for (int t = 0; t < count; ++t)
            for (int s = 0; s < kTileSets; ++s)
              store_rows(w_, totals[t][s], row + s * kSetRows, begin, end, out + t * y_stride);
      }
    }
  }

 private:
  using Totals = float (*)[kTileSets][kSetRows];
  using Panels = const std::byte* const (*)[kTileSets];

  // `tokens` tokens from `start` on that are multiplied, of which the last `count` are joined. The first tile of some
  // blocks of codes prefetches the next ones.
  struct TokenTile {
    int start, tokens, count;
    bool first;
  };

  const Matrix& w_;
  int64_t blocks_;  // of a row
  const std::byte* x_;

  const PackedBlock* x_at(int token) const {
    return reinterpret_cast<const PackedBlock*>(x_ + token * packed_bytes(w_.cols));
  }

  // Tokens first .. first + count - 1 with two sets of rows.
  void multiply(const RowSet* rows, int first, int count, int tile_tokens, Totals totals) const {
    std::fill_n(&totals[0][0][0], count * kTileSets * kSetRows, 0.f);
    alignas(64) std::byte unpacked[kTileBlocks][kTileSets][kPanelBytes];
    const std::byte* panels[kTileBlocks][kTileSets];
    const int64_t bytes = block_bytes(w_.bits);
    for (int64_t block = 0; block < blocks_; block += kTileBlocks) {
      const int blocks = int(std::min<int64_t>(kTileBlocks, blocks_ - block));
      for (int s = 0; s < kTileSets; ++s)
        for (int b = 0; b < blocks; ++b) {
          const std::byte* codes = rows[s].codes + (block + b) * bytes;
          panels[b][s] = w_.bits == 8 ? codes : unpacked[b][s];
          if (w_.bits == 4) Tiles::unpack(codes, unpacked[b][s]);
        }
      for (int t = 0; t < count; t += tile_tokens) {
        // The last tile reaches back, so that it is full.
        const TokenTile tile = {first + std::min(t, count - tile_tokens), tile_tokens, std::min(tile_tokens, count - t),
                                t == 0};
        multiply_tile(rows, tile, block, blocks, panels, totals + t);
      }
    }
  }

  // Blocks first .. first + blocks - 1 of a tile.
  [[gnu::noinline]] void multiply_tile(const RowSet* rows, TokenTile tile, int64_t first, int blocks, Panels panels,
                                       Totals totals) const {
    const int64_t per_group = w_.group_size / kBlockColumns, size = int64_t(size_of(w_.dtype));
    const int64_t stride = packed_bytes(w_.cols);
    const int done = tile.tokens - tile.count;
    const PackedBlock* x = x_at(tile.start) + first;
    const auto* steps = reinterpret_cast<const std::byte*>(x_at(tile.start + done) + blocks_);
    const auto join_set = [&](int b, int s, const TileSums& sums) __attribute__((always_inline)) {
      const int64_t group = (first + b) / per_group * kSetRows * size;
      typename I::F scale[kVectors], offset[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        scale[v] = I::load_as(w_.dtype, rows[s].scales + group + v * kLanes * size);
        offset[v] = I::load_as(w_.dtype, rows[s].biases + group + v * kLanes * size);
      }
      const std::byte* of_token = steps + (first + b) * int64_t(sizeof(PackedSteps));
      for (int t = 0; t < tile.count; ++t, of_token += stride)
        for (int v = 0; v < kVectors; ++v) {
          const auto sum =
              I::whole(I::load_bytes(sums.high[done + t] + v * kLanes), I::load_bytes(sums.low[done + t] + v * kLanes));
          float* total = totals[t][s] + v * kLanes;
          I::store(total,
                   join<I>(I::load(total), sum, *reinterpret_cast<const PackedSteps*>(of_token), scale[v], offset[v]));
        }
    };
    // Codes that are taken next are on their way while these are multiplied; behind this set comes the other one.
    // Little by little: more lines than a core can wait for at a time would hold up the codes that are unpacked.
    const auto prefetch_codes = [&](int b) {
      const int64_t bytes = block_bytes(w_.bits), next = first + b + kTileBlocks;
      for (int s = 0; s < kTileSets; ++s) {
        const std::byte* ahead = rows[s].codes + (next < blocks_ ? next : next + blocks_) * bytes;
        for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(ahead + line);
      }
    };
    // x comes from L2, and no prefetcher sees tiles coming: this tile's next blocks, then the next tile's first ones.
    const auto prefetch_x = [&](int b) {
      const PackedBlock* ahead = b < blocks ? x + b : x_at(tile.start + tile.tokens) + first + b - blocks;
      for (int t = 0; t < tile.tokens; ++t) {
        const std::byte* lines = reinterpret_cast<const std::byte*>(ahead) + t * stride;
        for (int64_t line = 0; line < int64_t(sizeof(PackedBlock)); line += 64) __builtin_prefetch(lines + line);
      }
    };
    // The unit multiplies one set while the other one's sums are joined.
    TileSums sums[kTileSets];
    Tiles::load(x, stride);
    Tiles::template multiply<0>(panels[0][0], sums[0]);
    for (int b = 0; b < blocks; ++b) {
      prefetch_x(b + 2);
      if (tile.first) prefetch_codes(b);
      Tiles::template multiply<1>(panels[b][1], sums[1]);
      join_set(b, 0, sums[0]);
      if (b + 1 < blocks) {
        Tiles::load(x + b + 1, stride);
        Tiles::template multiply<0>(panels[b + 1][0], sums[0]);
      }
      join_set(b, 1, sums[1]);
    }
  }
};

}  // namespace
}  // namespace swiftlet
