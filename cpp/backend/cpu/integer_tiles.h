// The matmul of integer_kernel.h for many tokens, where a unit multiplies tiles: 16 tokens at a time with the rows of
// two panels. `I` is as there, of bytes (ByteColumns or wider). Internal linkage, as there.
//
// What the unit leaves are the exact sums of a block, so they join the totals by the same formula in the same order,
// and an element has the bits that IntegerKernel gives it.
#pragma once

#include "backend/cpu/integer_vnni.h"

namespace swiftlet {
namespace {

constexpr int kTileTokens = 16;
constexpr int kTileVectors = 2;                  // panels
constexpr int kTileBlocks = 8;                   // whose codes are laid out at a time, so that they stay in L1
constexpr int64_t kTilePackedBytes = 288 << 10;  // of x: 64 tokens of 2,048 columns

// Exact sums of a block, still in halves.
template <class I>
struct TileSums {
  alignas(64) int32_t high[kTileVectors][kTileTokens][I::kLanes], low[kTileVectors][kTileTokens][I::kLanes];
};

// Tiles(tokens) prepares this thread's unit for tiles of so many tokens, until the object goes.
// Tiles::multiply(x, stride, panels, sums): sums of `tokens` blocks of x, `stride` bytes apart, with two panels.
template <class I, class Tiles>
class TileKernel {
  using Block = typename I::Block;
  static constexpr int kLanes = I::kLanes;
  static constexpr int kRows = kTileVectors * kLanes;
  static_assert(sizeof(Block) == 2 * kBlock && kTileBlocks <= kChunkBlocks);

 public:
  explicit TileKernel(const Matrix& matrix) : w_(matrix), blocks_(matrix.cols / kBlock) {}

  void run(const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride, int64_t begin, int64_t end) const {
    const int64_t token_bytes = stride() * int64_t(sizeof(Block)) + blocks_ * int64_t(sizeof(PackedSteps));
    const int64_t fit = kTilePackedBytes / token_bytes / kTileTokens * kTileTokens;
    const int most = std::min(tokens, int(std::clamp<int64_t>(fit, kTileTokens, kMaxTokens)));
    float* scratch = matmul_scratch(size_t(token_bytes) / sizeof(float) * size_t(most) + size_t(most) * kRows);
    Packed packed;
    packed.totals = scratch;
    packed.blocks = reinterpret_cast<Block*>(packed.totals + most * kRows);
    packed.steps = reinterpret_cast<PackedSteps*>(packed.blocks + most * stride());
    for (int first = 0; first < tokens; first += most) {
      const int count = std::min(most, tokens - first);
      for (int t = 0; t < count; ++t)
        for (int64_t b = 0; b < blocks_; ++b)
          packed.steps[t * blocks_ + b] =
              I::pack(x + (first + t) * x_stride + b * kBlock, packed.blocks[t * stride() + b]);
      const int tiles = (count + kTileTokens - 1) / kTileTokens;
      const int tile_tokens = (count + tiles - 1) / tiles;  // what a tile costs grows with its tokens
      const Tiles unit(tile_tokens);
      for (int64_t row = begin; row < end; row += kRows)
        rows(packed, count, tile_tokens, row, int(std::min<int64_t>(kRows, end - row)), y + first * y_stride, y_stride);
    }
  }

 private:
  struct Packed {
    float* totals;       // [token][kRows]
    Block* blocks;       // [token][stride()]
    PackedSteps* steps;  // [token][blocks_]
  };

  const Matrix& w_;
  int64_t blocks_;  // of a row

  // Blocks from a token to the next: one more than there are, or all tokens of a tile fall into one set of the cache.
  int64_t stride() const { return blocks_ + 1; }

  void rows(const Packed& x, int tokens, int tile_tokens, int64_t row, int count, float* y, int64_t y_stride) const {
    alignas(64) typename I::Panel panels[kTileBlocks][kTileVectors];
    Factors<I> factors[kTileVectors];
    std::fill_n(x.totals, tokens * kRows, 0.f);
    for (int64_t first = 0; first < blocks_; first += kTileBlocks) {
      const int blocks = int(std::min<int64_t>(kTileBlocks, blocks_ - first));
      for (int v = 0; v < kTileVectors; ++v) {
        int64_t index[kLanes];  // the last row fills up the vector; what is computed for it twice is not stored
        for (int i = 0; i < kLanes; ++i) index[i] = row + std::min(v * kLanes + i, count - 1);
        convert_factors(w_.scales(), index, first, blocks, factors[v].scale);
        convert_factors(w_.biases(), index, first, blocks, factors[v].bias);
        lay_out(index, first, blocks, v, panels);
      }
      for (int token = 0; token < tokens; token += tile_tokens)
        tile(x, token, std::min(token, tokens - tile_tokens), std::min(tile_tokens, tokens - token), first, blocks,
             panels, factors);
    }
    for (int t = 0; t < tokens; ++t)
      for (int i = 0; i < count; ++i)
        y[t * y_stride + row + i] = x.totals[t * kRows + i] + (w_.bias ? w_.bias[row + i] : 0.f);
  }

  void convert_factors(const std::byte* stored, const int64_t* index, int64_t first, int blocks,
                       float (*out)[kLanes]) const {
    const int64_t per_group = w_.group_size / kBlock, size = int64_t(size_of(w_.dtype));
    const int64_t begin = first / per_group, end = (first + blocks - 1) / per_group + 1;
    const std::byte* from[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      from[i] = stored + (index[i] * w_.groups() + begin) * size;
      __builtin_prefetch(from[i] + kRows * w_.groups() * size);
    }
    I::convert(w_.dtype, from, int(end - begin), out);
    if (per_group == 1) return;
    for (int b = blocks - 1; b > 0; --b)  // from the last on, as the groups lie in the same place
      std::memcpy(out[b], out[(first + b) / per_group - begin], sizeof(out[0]));
  }

  void lay_out(const int64_t* index, int64_t first, int blocks, int v,
               typename I::Panel (*panels)[kTileVectors]) const {
    const int64_t row_bytes = int64_t(w_.weight_row_bytes());
    const std::byte* codes[kLanes];
    for (int i = 0; i < kLanes; ++i) codes[i] = w_.weight() + index[i] * row_bytes + first * kBlockBytes;
    for (int b = 0; b < blocks; ++b) {
      if (b % 2 == 0)  // two blocks are a line of the cache
        for (int i = 0; i < kLanes; ++i) __builtin_prefetch(codes[i] + kRows * row_bytes, 0, 2);
      I::lay_out(codes, panels[b][v]);
      for (const std::byte*& row_codes : codes) row_codes += kBlockBytes;
    }
  }

  // Joins tokens token .. token + count - 1. The tile begins at `start`: the last one reaches back, so that it is full.
  [[gnu::noinline]] void tile(const Packed& x, int token, int start, int count, int64_t first, int blocks,
                              const typename I::Panel (*panels)[kTileVectors], const Factors<I>* factors) const {
    TileSums<I> sums[2];  // the unit fills one while the other is joined
    const Block* in = x.blocks + start * stride() + first;
    const int64_t bytes = stride() * int64_t(sizeof(Block));
    Tiles::multiply(in, bytes, panels[0], sums[0]);
    for (int b = 0; b < blocks; ++b) {
      if (b + 1 < blocks) Tiles::multiply(in + b + 1, bytes, panels[b + 1], sums[(b + 1) % 2]);
      const TileSums<I>& done = sums[b % 2];
      for (int t = 0; t < count; ++t) {
        const PackedSteps& steps = x.steps[(token + t) * blocks_ + first + b];
        for (int v = 0; v < kTileVectors; ++v) {
          const int at = token - start + t;
          const auto sum = I::whole(I::load_bytes(done.high[v][at]), I::load_bytes(done.low[v][at]));
          float* total = x.totals + (token + t) * kRows + v * kLanes;
          I::store(total, join<I>(I::load(total), sum, steps, factors[v].scale[b], factors[v].bias[b]));
        }
      }
    }
  }
};

}  // namespace
}  // namespace swiftlet
