// The matmul of 4-bit affine matrices in whole numbers, written once over a set of vector operations `I`.
//
// Multiplying floats costs a conversion for every weight. Here a block of 64 columns of x becomes whole numbers with
// one step, x = step * q with |q| <= 32,512, so that an element is off by at most 1/65,024 of the largest of its block:
//     y = bias + sum over blocks (scale * (step * sum of code q) + offset * (step * sum of q)), offset: the matrix's
//     bias
// q has 16 bits, and is split into two bytes, q = 256 * high + low, where the instructions multiply bytes.
//
// The sums of a block are exact. So the order in which they are added up does not matter: few tokens take the codes of
// a row as they lie, many tokens take those of several rows side by side, and both give an element the same bits. The
// blocks follow each other in their order.
//
// Everything has internal linkage: each instruction set compiles its own copy, and the linker must not mix them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cpu/codec.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/matmul_scratch.h"

namespace swiftlet {
namespace {

constexpr int kBlock = 64;                   // columns with one step
constexpr float kMaxQ = 32512;               // 127 * 256
constexpr float kLeastLargest = 1e-30f;      // where all |x| are below, the step is as if this were the largest
constexpr int kBlockBytes = kBlock / 2;      // of codes
constexpr int kFewTokens = 2;                // up to here the codes of a row are taken as they lie
constexpr int kMaxTokens = 64;               // of x that are packed at a time
constexpr int64_t kPackedBytes = 256 << 10;  // of them, so that they stay in L2
constexpr int64_t kBytesAhead = 8192;        // of codes that few tokens prefetch
constexpr int kChunkBlocks = 16;             // blocks whose scales are converted and whose codes are laid out at a time

// What a block's exact sums are multiplied by; NaN if x holds NaN or infinity.
struct PackedSteps {
  float step;
  float sum;  // step * sum of q
};

inline bool in_integers(const Matrix& w) {
  return w.codec == Codec::Affine && w.bits == 4 && w.group_size % kBlock == 0;
}

// Scales and biases of a chunk of blocks for kLanes rows that lie side by side in a vector.
template <class I>
struct Factors {
  alignas(64) float scale[kChunkBlocks][I::kLanes];
  alignas(64) float bias[kChunkBlocks][I::kLanes];
};

// total + scale * (step * sum) + bias * (step * sum of q): how a block's exact sums join the totals of kLanes rows.
template <class I>
[[gnu::always_inline]] inline typename I::F join(typename I::F total, typename I::V sum, const PackedSteps& x,
                                                 const float* scale, const float* bias) {
  const typename I::F scaled = I::mul(I::to_float(sum), I::set1(x.step));
  return I::fma(I::load(bias), I::set1(x.sum), I::fma(I::load(scale), scaled, total));
}

template <class I>
class IntegerKernel {
  using F = typename I::F;          // kLanes floats
  using V = typename I::V;          // kLanes words
  using Block = typename I::Block;  // a token's q of kBlock columns
  static constexpr int kLanes = I::kLanes;

 public:
  explicit IntegerKernel(const Matrix& matrix) : w_(matrix), blocks_(matrix.cols / kBlock) {
    const int64_t set_bytes = kLanes * int64_t(w_.weight_row_bytes());
    rows_ahead_ = (kBytesAhead + set_bytes - 1) / set_bytes * kLanes;
  }

  void run(const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride, int64_t begin, int64_t end) const {
    const int64_t token_bytes = blocks_ * int64_t(sizeof(Block) + sizeof(PackedSteps));
    const int64_t fit = kPackedBytes / token_bytes / I::kTokens * I::kTokens;
    const int most = std::min(tokens, int(std::clamp<int64_t>(fit, I::kTokens, kMaxTokens)));
    const size_t floats_per_token = size_t(token_bytes) / sizeof(float);
    const size_t totals = size_t(most) * kTileRows;
    const size_t sums = size_t(kFewTokens * kLanes * sum_vectors());
    float* scratch = matmul_scratch(sums * kLanes + floats_per_token * size_t(most) + totals);
    Packed packed;
    packed.sums = reinterpret_cast<V*>(scratch);
    packed.blocks = reinterpret_cast<Block*>(packed.sums + sums);
    packed.steps = reinterpret_cast<PackedSteps*>(packed.blocks + most * blocks_);
    packed.totals = reinterpret_cast<float*>(packed.steps + most * blocks_);
    for (int first = 0; first < tokens; first += most) {
      const int count = std::min(most, tokens - first);
      for (int t = 0; t < count; ++t)
        for (int64_t b = 0; b < blocks_; ++b)
          packed.steps[t * blocks_ + b] =
              I::pack(x + (first + t) * x_stride + b * kBlock, packed.blocks[t * blocks_ + b]);
      float* out = y + first * y_stride;
      if (count <= kFewTokens)
        for (int64_t row = begin; row < end; row += kLanes)
          count == 1 ? few_tokens<1>(packed, row, int(std::min<int64_t>(kLanes, end - row)), out, y_stride)
                     : few_tokens<2>(packed, row, int(std::min<int64_t>(kLanes, end - row)), out, y_stride);
      else
        for (int64_t row = begin; row < end; row += kTileRows)
          many_tokens(packed, count, row, int(std::min<int64_t>(kTileRows, end - row)), out, y_stride);
    }
  }

 private:
  static constexpr int kVectors = 2;  // of rows, in a tile
  static constexpr int kTileRows = kVectors * kLanes;

  struct Packed {
    Block* blocks;       // [token][block]
    PackedSteps* steps;  // [token][block]
    float* totals;       // [token][kTileRows], for many tokens
    V* sums;             // [token][row][sum_vectors()], for few tokens
  };

  const Matrix& w_;
  int64_t blocks_;      // of a row
  int64_t rows_ahead_;  // whose scales are prefetched

  int64_t sum_vectors() const { return (blocks_ + kLanes - 1) / kLanes; }

  // The last one fills up a set; what is computed for it twice is not stored.
  int64_t row_at(int64_t first, int i, int count) const { return first + std::min(i, count - 1); }

  void convert_factors(int64_t row, int count, int64_t first, int blocks, Factors<I>& out) const {
    const int64_t groups = w_.groups(), size = int64_t(size_of(w_.dtype)), per_group = w_.group_size / kBlock;
    const int64_t begin = first / per_group, end = (first + blocks - 1) / per_group + 1;
    const std::byte *scales[kLanes], *biases[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const int64_t at = (row_at(row, i, count) * groups + begin) * size;
      scales[i] = w_.scales() + at;
      biases[i] = w_.biases() + at;
      __builtin_prefetch(scales[i] + rows_ahead_ * groups * size);
      __builtin_prefetch(biases[i] + rows_ahead_ * groups * size);
    }
    const auto spread = [&](const std::byte* const* from, float (*to)[kLanes]) {
      I::convert(w_.dtype, from, int(end - begin), to);
      if (per_group == 1) return;
      for (int b = blocks - 1; b > 0; --b)  // from the last on, as the groups lie in the same place
        std::memcpy(to[b], to[(first + b) / per_group - begin], sizeof(to[0]));
    };
    spread(scales, out.scale);
    spread(biases, out.bias);
  }

  void store(F total, int64_t row, int count, float* y) const {
    alignas(64) float values[kLanes];
    I::store(values, total);
    for (int i = 0; i < count; ++i) y[row + i] = values[i] + (w_.bias ? w_.bias[row + i] : 0.f);
  }

  // T tokens against rows row .. row + count - 1. First the exact sums of one row after the other, as they lie in
  // memory: only so is it read about as fast as it can be. Then all rows take their blocks side by side.
  template <int T>
  [[gnu::noinline]] void few_tokens(const Packed& x, int64_t row, int count, float* y, int64_t y_stride) const {
    for (int i = 0; i < kLanes; ++i) {
      const std::byte* codes = w_.weight() + uint64_t(row_at(row, i, count)) * w_.weight_row_bytes();
      V* sums = x.sums + i * sum_vectors();
      int64_t first = 0;
      for (; first + kLanes <= blocks_; first += kLanes) {
        for (int j = 0; j < kLanes; j += 2)  // two blocks are a line of the cache
          __builtin_prefetch(codes + (first + j) * kBlockBytes + kBytesAhead);
        for (int t = 0; t < T; ++t) {
          const Block* in = x.blocks + t * blocks_ + first;
          sums[t * kLanes * sum_vectors() + first / kLanes] = I::sum_rows([&](int j) __attribute__((always_inline)) {
            return I::row_dot(codes + (first + j) * kBlockBytes, in[j]);
          });
        }
      }
      if (first == blocks_) continue;
      for (int t = 0; t < T; ++t) {
        const Block* in = x.blocks + t * blocks_;
        // The last block fills up the vector; what is computed for it twice is not used.
        sums[t * kLanes * sum_vectors() + first / kLanes] = I::sum_rows([&](int j) {
          const int64_t b = std::min(first + j, blocks_ - 1);
          return I::row_dot(codes + b * kBlockBytes, in[b]);
        });
      }
    }
    F total[T];
    for (F& t : total) t = I::zero();
    for (int64_t first = 0; first < blocks_; first += kChunkBlocks) {
      const int blocks = int(std::min<int64_t>(kChunkBlocks, blocks_ - first));
      Factors<I> factors;
      convert_factors(row, count, first, blocks, factors);
      for (int begin = 0; begin < blocks; begin += kLanes)
        for (int t = 0; t < T; ++t) {
          V of_row[kLanes], of_block[kLanes];
          for (int i = 0; i < kLanes; ++i)
            of_row[i] = x.sums[(t * kLanes + i) * sum_vectors() + (first + begin) / kLanes];
          I::transpose(of_row, of_block);
          for (int b = begin; b < std::min(begin + kLanes, blocks); ++b)
            total[t] = join<I>(total[t], of_block[b - begin], x.steps[t * blocks_ + first + b], factors.scale[b],
                               factors.bias[b]);
        }
    }
    for (int t = 0; t < T; ++t) store(total[t], row, count, y + t * y_stride);
  }

  void many_tokens(const Packed& x, int tokens, int64_t row, int count, float* y, int64_t y_stride) const {
    alignas(64) typename I::Panel panel[kChunkBlocks][kVectors];
    Factors<I> factors[kVectors];
    for (int i = 0; i < tokens * kVectors; ++i) I::store(x.totals + i * kLanes, I::zero());
    for (int64_t first = 0; first < blocks_; first += kChunkBlocks) {
      const int blocks = int(std::min<int64_t>(kChunkBlocks, blocks_ - first));
      for (int v = 0; v < kVectors; ++v) {
        const int64_t begin = row_at(row, v * kLanes, count);
        const int rows = std::max(1, std::min(kLanes, count - v * kLanes));
        convert_factors(begin, rows, first, blocks, factors[v]);
        const std::byte* codes[kLanes];
        for (int i = 0; i < kLanes; ++i)
          codes[i] = w_.weight() + uint64_t(row_at(begin, i, rows)) * w_.weight_row_bytes() + first * kBlockBytes;
        for (int b = 0; b < blocks; ++b) {
          I::lay_out(codes, panel[b][v]);
          for (const std::byte*& row_codes : codes) row_codes += kBlockBytes;
        }
      }
      int t = 0;
      for (; t + I::kTokens <= tokens; t += I::kTokens) tile<I::kTokens>(x, t, first, blocks, panel, factors);
      for (; t < tokens; ++t) tile<1>(x, t, first, blocks, panel, factors);
    }
    for (int t = 0; t < tokens; ++t)
      for (int v = 0; v < kVectors && v * kLanes < count; ++v)
        store(I::load(x.totals + (t * kVectors + v) * kLanes), row + v * kLanes, std::min(kLanes, count - v * kLanes),
              y + t * y_stride);
  }

  // T tokens from `token` on against the rows of a chunk.
  template <int T>
  [[gnu::noinline]] void tile(const Packed& x, int token, int64_t first, int blocks,
                              const typename I::Panel (*panel)[kVectors], const Factors<I>* factors) const {
    F total[T][kVectors];
    for (int t = 0; t < T; ++t)
      for (int v = 0; v < kVectors; ++v) total[t][v] = I::load(x.totals + ((token + t) * kVectors + v) * kLanes);
    for (int b = 0; b < blocks; ++b) {
      const Block* in[T];
      for (int t = 0; t < T; ++t) in[t] = x.blocks + (token + t) * blocks_ + first + b;
      V sums[T][kVectors];
      I::template panel_dot<T, kVectors>(panel[b], in, sums);
      for (int t = 0; t < T; ++t)
        for (int v = 0; v < kVectors; ++v)
          total[t][v] = join<I>(total[t][v], sums[t][v], x.steps[(token + t) * blocks_ + first + b],
                                factors[v].scale[b], factors[v].bias[b]);
    }
    for (int t = 0; t < T; ++t)
      for (int v = 0; v < kVectors; ++v) I::store(x.totals + ((token + t) * kVectors + v) * kLanes, total[t][v]);
  }
};

}  // namespace
}  // namespace swiftlet
