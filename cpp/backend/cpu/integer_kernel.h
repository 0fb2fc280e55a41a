// The matmul of integers.h, written once over a set of vector operations `I`.
//
// The matrix goes by sets of 16 rows, which lie side by side (interleave.h; those that do not are brought into that
// order first). Lanes of registers are rows. Everything has internal linkage: each instruction set compiles its own
// copy, and the linker must not mix them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/integers.h"
#include "backend/cpu/thread_scratch.h"
#include "backend/interleave.h"

namespace swiftlet {
namespace {

constexpr int64_t kBytesAhead = 2048;  // of codes that are prefetched

// Bytes of the codes of a block of a set.
constexpr int64_t block_bytes(int bits) { return kSetRows * kBlockColumns * bits / 8; }

// 16 rows, interleaved.
struct RowSet {
  const std::byte *codes, *scales, *biases;
};

// Set `set` of w; `scratch` has room for it, in case it does not lie so: set_scratch_floats(w).
inline RowSet row_set(const Matrix& w, int64_t set, float* scratch) {
  const int64_t first = set * kSetRows, codes = int64_t(w.weight_row_bytes()), scales = int64_t(w.scale_row_bytes());
  const RowSet stored = {w.weight() + first * codes, w.scales() + first * scales, w.biases() + first * scales};
  const int rows = int(std::min<int64_t>(kSetRows, w.rows - first));
  if (w.interleaved && rows == kSetRows) return stored;
  auto* out = reinterpret_cast<std::byte*>(scratch);
  const RowSet copy = {out, out + kSetRows * codes, out + kSetRows * (codes + scales)};
  interleave_rows(stored.codes, codes, rows, codes_of(w), out);
  interleave_rows(stored.scales, scales, rows, scales_of(w), out + kSetRows * codes);
  interleave_rows(stored.biases, scales, rows, scales_of(w), out + kSetRows * (codes + scales));
  return copy;
}
inline size_t set_scratch_floats(const Matrix& w) {
  if (w.interleaved && w.rows % kSetRows == 0) return 0;
  return kSetRows * size_t(w.weight_row_bytes() + 2 * w.scale_row_bytes()) / sizeof(float);
}

constexpr float kMaxQ = 32512;           // 127 * 256
constexpr float kLeastLargest = 1e-30f;  // where all |x| are below, the step is as if this were the largest

// The step of a block whose largest |x| has these bits (as whole numbers NaN and infinity are above all others); NaN if
// x holds NaN or infinity.
inline float step_of(uint32_t largest) {
  if (largest >= 0x7f800000) return std::numeric_limits<float>::quiet_NaN();
  return std::max(std::bit_cast<float>(largest), kLeastLargest) / kMaxQ;
}

// A token of blocks, each packed by pack_block.
template <PackedSteps (*pack_block)(const float* x, PackedBlock& out)>
void pack_blocks(const float* x, int64_t cols, std::byte* out) {
  auto* blocks = reinterpret_cast<PackedBlock*>(out);
  auto* steps = reinterpret_cast<PackedSteps*>(blocks + cols / kBlockColumns);
  for (int64_t b = 0; b < cols / kBlockColumns; ++b) steps[b] = pack_block(x + b * kBlockColumns, blocks[b]);
}

// total + scale * (step * sum) + offset * (step * sum of q): how a block's exact sums join the totals of kLanes rows.
template <class I>
[[gnu::always_inline]] inline typename I::F join(typename I::F total, typename I::V sum, const PackedSteps& x,
                                                 typename I::F scale, typename I::F offset) {
  const typename I::F scaled = I::mul(I::to_float(sum), I::set1(x.step));
  return I::fma(offset, I::set1(x.sum), I::fma(scale, scaled, total));
}

// The rows of set `first` .. that lie in begin .. end - 1, of a token.
inline void store_rows(const Matrix& w, const float* values, int64_t first, int64_t begin, int64_t end, float* y) {
  if (!w.bias && begin <= first && first + kSetRows <= end) {
    std::memcpy(y + first, values, kSetRows * sizeof(float));
    return;
  }
  for (int64_t row = std::max(first, begin); row < std::min(first + kSetRows, end); ++row)
    y[row] = w.bias ? values[row - first] + w.bias[row] : values[row - first];
}

constexpr int kStreams = 4;  // places of a matrix that are read by turns for a single token

// `I` has the vector operations: kLanes, kSets (sets of rows that share what is loaded of x), kTokens (the most tokens
// of a tile), and dot<kBits, T>(codes, x, sums), the exact sums of a block of T tokens with kSets sets of rows.
template <class I>
class IntegerKernel {
  static constexpr int kLanes = I::kLanes;
  static constexpr int kSets = I::kSets;
  static constexpr int kVectors = kSetRows / kLanes;  // of a set
  static_assert(kStreams % kSets == 0);

 public:
  IntegerKernel(const Matrix& matrix, const std::byte* x, float* y, int64_t y_stride, int64_t begin, int64_t end)
      : w_(matrix), blocks_(matrix.cols / kBlockColumns), x_(x), y_(y), y_stride_(y_stride), begin_(begin), end_(end) {}

  void run(int tokens) const {
    int64_t set = begin_ / kSetRows;
    const int64_t last = (end_ - 1) / kSetRows;
    // One token is bound by memory, which gives more where it is read in several places far from each other. Where
    // there are fewer sets than places they go as those of more tokens do.
    if (tokens == 1) {
      const int64_t apart = (last - set + 1) / kStreams, stop = set + apart;
      for (; set < stop; ++set) sets<kStreams, 1>(tokens, set, apart);
      set += (kStreams - 1) * apart;
    }
    for (; set <= last; set += kSets) sets<kSets, I::kTokens>(tokens, set, 1);
  }

 private:
  const Matrix& w_;
  int64_t blocks_;  // of a row
  const std::byte* x_;
  float* y_;
  int64_t y_stride_, begin_, end_;  // rows of y that are stored

  // All tokens against S sets of rows, `set` and those `apart` from each other, in tiles of T tokens at most.
  template <int S, int T>
  void sets(int tokens, int64_t set, int64_t apart) const {
    const size_t set_floats = set_scratch_floats(w_);
    float* scratch = thread_scratch(S * set_floats);
    RowSet rows[S];
    for (int s = 0; s < S; ++s)  // the last one may come twice; then its second result is not stored
      rows[s] = row_set(w_, std::min(set + s * apart, (end_ - 1) / kSetRows), scratch + size_t(s) * set_floats);
    for (int token = 0, count; token < tokens; token += count) {
      const int left = tokens - token, tiles = (left + T - 1) / T;
      count = (left + tiles - 1) / tiles;  // nearly as many in each tile
      if (w_.bits == 8)
        tile_of<8, S, T>(count, rows, token, set, apart);
      else
        tile_of<4, S, T>(count, rows, token, set, apart);
    }
  }

  // A tile of `count` tokens, at most T, from `token` on.
  template <int kBits, int S, int T>
  void tile_of(int count, const RowSet* rows, int token, int64_t set, int64_t apart) const {
    if constexpr (T > 1)
      if (count < T) return tile_of<kBits, S, T - 1>(count, rows, token, set, apart);
    alignas(64) float values[T][S][kSetRows];
    tile<kBits, S, T>(rows, token, values);
    for (int t = 0; t < T; ++t)
      for (int s = 0; s < S; ++s)
        store_rows(w_, values[t][s], (set + s * apart) * kSetRows, begin_, end_, y_ + (token + t) * y_stride_);
  }

  // T tokens from `token` on against S sets of rows.
  template <int kBits, int S, int T>
  [[gnu::noinline]] void tile(const RowSet* rows, int token, float (*values)[S][kSetRows]) const {
    const PackedBlock* x[T];
    for (int t = 0; t < T; ++t) x[t] = reinterpret_cast<const PackedBlock*>(x_ + (token + t) * packed_bytes(w_.cols));
    const int64_t per_group = w_.group_size / kBlockColumns, size = int64_t(size_of(w_.dtype));
    typename I::F total[T][S][kVectors];
    for (int t = 0; t < T; ++t)
      for (int s = 0; s < S; ++s)
        for (int v = 0; v < kVectors; ++v) total[t][s][v] = I::set1(0);
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t group = (per_group == 1 ? b : b / per_group) * kSetRows * size;
      // From a block to its steps: the same for all tokens, so that they need no registers of their own.
      const int64_t to_steps = (blocks_ - b) * int64_t(sizeof(PackedBlock)) + b * int64_t(sizeof(PackedSteps));
      for (int first = 0; first < S; first += kSets) {
        const std::byte* codes[kSets];
        for (int s = 0; s < kSets; ++s) {
          codes[s] = rows[first + s].codes + b * block_bytes(kBits);
          for (int64_t line = 0; line < block_bytes(kBits); line += 64)
            __builtin_prefetch(codes[s] + kBytesAhead + line);
        }
        typename I::V sums[T][kSets][kVectors];
        I::template dot<kBits, T>(codes, x, sums);
        for (int s = 0; s < kSets; ++s)
          for (int v = 0; v < kVectors; ++v) {
            const auto scale = I::load_as(w_.dtype, rows[first + s].scales + group + v * kLanes * size);
            const auto offset = I::load_as(w_.dtype, rows[first + s].biases + group + v * kLanes * size);
            for (int t = 0; t < T; ++t) {
              const auto* at = reinterpret_cast<const std::byte*>(x[t]) + to_steps;
              auto& sum = total[t][first + s][v];
              sum = join<I>(sum, sums[t][s][v], *reinterpret_cast<const PackedSteps*>(at), scale, offset);
            }
          }
      }
      for (int t = 0; t < T; ++t) ++x[t];
    }
    for (int t = 0; t < T; ++t)
      for (int s = 0; s < S; ++s)
        for (int v = 0; v < kVectors; ++v) I::store(values[t][s] + v * kLanes, total[t][s][v]);
  }
};

}  // namespace
}  // namespace swiftlet
