// The matmul of every codec, written once over a set of vector operations `S` (one struct for each instruction set).
//
// Every quantized codec is w = scale * code + bias with a small non-negative code. A row is cut into blocks, and with
// q the codes of a block as floats
//     y = sum over groups (bias * sum of x) + sum over blocks (scale * sum of q x),
// where the group sums of x are computed once a call. Lane l of a block's sum adds the columns of lane l in the order
// of the steps; lanes are added at the very end. That order is the same for few tokens (codes go from the register
// straight into the sums) and for many (codes of a few rows become floats in L1, then meet several tokens at a time),
// so the bits of an output element never depend on what else is computed.
//
// A block is `kSteps` vectors of codes. Codes of 2 and 4 bits are taken as they lie: lane l holds a 32-bit word, step k
// is its code k, masked but not shifted. So x is packed in that order and multiplied by the power of two that undoes
// the place of the code. (For |x| < 2^-98 that product is subnormal; what it may lose is below 2^-120.)
//
// Everything has internal linkage: each instruction set compiles its own copy, and the linker must not mix them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "backend/cpu/codec.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/thread_scratch.h"

namespace swiftlet {
namespace {

constexpr int kRows = 4;                     // rows of W that go through a loop together
constexpr int kFewTokens = 6;                // up to here a row is decoded anew for every two tokens
constexpr int kMaxTokens = 48;               // from there on it is decoded once for up to so many
constexpr int64_t kPackedBytes = 256 << 10;  // of x, so that it stays in L2
constexpr int kDecodeColumns = 512;          // of kRows rows as floats, so that they stay in L1
constexpr int kScaleColumns = 2048;          // columns whose scales and biases are converted at a time
constexpr int kGroupsAtOnce = kScaleColumns / 16;
constexpr int kScaleFloats = kScaleColumns / 8;  // a vector for every 8 vectors of codes

// body(0), .. body(N - 1), each with its number as a constant.
template <class Body, int... K>
[[gnu::always_inline]] inline void each(Body body, std::integer_sequence<int, K...>) {
  (body(std::integral_constant<int, K>{}), ...);
}
template <int N, class Body>
[[gnu::always_inline]] inline void unrolled(Body body) {
  each(body, std::make_integer_sequence<int, N>{});
}

// ---- Codecs: how a block lies in memory, and its step K as floats ----

enum class Bias { None, Stored, FromScale };  // FromScale: -6 * scale

// Columns of a block in the order of codes that lie a word a lane: out[k][l] = x[l][k] * 2^-place(k).
template <class S, int Steps, class Place>
void pack_words(const float* x, float* out, Place place) {
  for (int k = 0; k < Steps; k += 4) {
    float factors[4];
    for (int i = 0; i < 4; ++i) factors[i] = std::bit_cast<float>(uint32_t(127 - place(k + i)) << 23);
    for (int l = 0; l < S::kLanes; l += 4)
      S::transpose4(x + l * Steps + k, Steps, factors, out + k * S::kLanes + l, S::kLanes);
  }
}

// Codes of 2 or 4 bits, a word a lane.
template <class S, int B>
struct WordCodes {
  static constexpr int kSteps = 32 / B, kColumns = kSteps * S::kLanes, kBytes = 4 * S::kLanes, kReads = kBytes;
  static constexpr bool kMaySplit = true;
  static constexpr float kScale = 1;
  static constexpr Bias kBias = Bias::Stored;
  using Raw = typename S::U;

  static Raw load(const std::byte* block) { return S::load_words(block); }
  template <int K>
  static typename S::F value(Raw words) {
    if constexpr (K == kSteps - 1)  // a mask would leave the sign bit set
      return S::to_float(S::template shift_right<K * B>(words));
    else
      return S::to_float(S::mask(words, ((1u << B) - 1) << K * B));
  }
  static void pack(const float* x, float* out) {
    pack_words<S, kSteps>(x, out, [](int k) { return k == kSteps - 1 ? 0 : k * B; });
  }
};

// 4-bit floats, a word a lane. A table turns a nibble into the byte 2 * value + 12.
template <class S>
struct Fp4Codes {
  static constexpr int kSteps = 8, kColumns = 8 * S::kLanes, kBytes = 4 * S::kLanes, kReads = kBytes;
  static constexpr bool kMaySplit = true;
  static constexpr float kScale = 0.5f;  // w = scale * (byte - 12) / 2
  static constexpr Bias kBias = Bias::FromScale;
  struct Raw {
    typename S::U even, odd;
  };

  static constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  static Raw load(const std::byte* block) {
    const typename S::U words = S::load_words(block);
    return {S::lookup(kTable, S::mask(words, 0x0f0f0f0f)),
            S::lookup(kTable, S::mask(S::template shift_right<4>(words), 0x0f0f0f0f))};
  }
  template <int K>
  static typename S::F value(const Raw& raw) {
    const typename S::U bytes = K % 2 ? raw.odd : raw.even;
    if constexpr (K / 2 == 3)
      return S::to_float(S::template shift_right<24>(bytes));
    else
      return S::to_float(S::mask(bytes, 0xffu << K / 2 * 8));
  }
  static void pack(const float* x, float* out) {
    pack_words<S, kSteps>(x, out, [](int k) { return k / 2 == 3 ? 0 : k / 2 * 8; });
  }
};

// Codecs whose columns keep their order: step k is columns k * kLanes .. of the block. No block is wider than a group.
template <class S, int B, int Steps>
struct InOrder {
  static constexpr int kSteps = Steps, kColumns = kSteps * S::kLanes, kBytes = kColumns * B / 8;
  static constexpr bool kMaySplit = false;
  using Raw = const std::byte*;
  static Raw load(const std::byte* block) { return block; }
  static void pack(const float* x, float* out) { std::memcpy(out, x, kColumns * sizeof(float)); }
};

// Codes of any width, spread over the lanes by a byte shuffle.
template <class S, int B, int Steps>
struct StreamCodes : InOrder<S, B, Steps> {
  static constexpr int kReads = S::template codes_read<B>(Steps);
  static constexpr float kScale = 1;
  static constexpr Bias kBias = Bias::Stored;
  template <int K>
  static typename S::F value(const std::byte* block) {
    return S::to_float(S::template codes<B, K>(block));
  }
};

template <class S>
struct Fp8Codes : InOrder<S, 8, 32 / S::kLanes> {
  static constexpr int kReads = Fp8Codes::kBytes;
  static constexpr float kScale = 256;  // undoes that of S::e4m3; a scale that overflows by it overflows f32 by itself
  static constexpr Bias kBias = Bias::None;
  template <int K>
  static typename S::F value(const std::byte* block) {
    return S::e4m3(block + K * S::kLanes);
  }
};

template <class S>
struct PlainF32 : InOrder<S, 32, 16> {
  static constexpr int kReads = PlainF32::kBytes;
  static constexpr float kScale = 0;  // no scales
  static constexpr Bias kBias = Bias::None;
  template <int K>
  static typename S::F value(const std::byte* block) {
    return S::load_f32(block + K * 4 * S::kLanes);
  }
};

template <class S>
struct PlainF16 : InOrder<S, 16, 16> {
  static constexpr int kReads = PlainF16::kBytes;
  static constexpr float kScale = 0;
  static constexpr Bias kBias = Bias::None;
  template <int K>
  static typename S::F value(const std::byte* block) {
    return S::load_f16(block + K * 2 * S::kLanes);
  }
};

// Two columns are a word; its low half is shifted up, its high half is a float once the low half is masked out.
template <class S>
struct PlainBf16 : InOrder<S, 16, 16> {
  static constexpr int kReads = PlainBf16::kBytes;
  static constexpr float kScale = 0;
  static constexpr Bias kBias = Bias::None;
  template <int K>
  static typename S::F value(const std::byte* block) {
    const typename S::U words = S::load_words(block + K / 2 * 4 * S::kLanes);
    return S::as_float(K % 2 ? S::mask(words, 0xffff0000) : S::template shift_left<16>(words));
  }
  static void pack(const float* x, float* out) {
    for (int k = 0; k < PlainBf16::kSteps; k += 2) S::deinterleave(x + k * S::kLanes, out + k * S::kLanes);
  }
};

// ---- Rows that go through the loops together ----

struct RowSet {
  int64_t index[kRows];
  const std::byte* codes[kRows];
};

// Rows first .. first + count - 1. The last one fills up the set; what is computed for it twice is not stored.
inline RowSet row_set(const Matrix& w, int64_t first, int count) {
  RowSet rows;
  for (int i = 0; i < kRows; ++i) {
    rows.index[i] = first + std::min(i, count - 1);
    rows.codes[i] = w.weight() + uint64_t(rows.index[i]) * w.weight_row_bytes();
  }
  return rows;
}

// out[i][g] = factor * stored[row i][first + g] for g < count, then 0 up to a multiple of kLanes. `stored` are the
// scales or biases, `groups` of them a row.
template <class S, int Stride>
void convert_groups(const Matrix& w, int64_t groups, const std::byte* stored, const RowSet& rows, int64_t first,
                    int64_t count, float factor, float (*out)[Stride]) {
  const auto convert = [&](int64_t size, auto load) {
    const auto factors = S::set1(factor);
    for (int i = 0; i < kRows; ++i) {
      const std::byte* row = stored + (rows.index[i] * groups + first) * size;
      int64_t g = 0;
      for (; g + S::kLanes <= count; g += S::kLanes) S::store(out[i] + g, S::mul(load(row + g * size), factors));
      if (g == count) continue;
      std::byte padded[4 * S::kLanes] = {};
      std::memcpy(padded, row + g * size, size_t((count - g) * size));
      S::store(out[i] + g, S::mul(load(padded), factors));
      for (g = count; g % S::kLanes != 0; ++g) out[i][g] = 0;  // a format may have no zero
    }
  };
  switch (w.codec) {
    case Codec::NvFp4:
      return convert(1, [](const std::byte* p) { return S::mul(S::e4m3(p), S::set1(256)); });
    case Codec::MxFp4:
    case Codec::MxFp8:
      return convert(1, S::e8m0);
    default:
      break;
  }
  switch (w.dtype) {
    case DType::BF16:
      return convert(2, S::load_bf16);
    case DType::F16:
      return convert(2, S::load_f16);
    default:
      return convert(4, S::load_f32);
  }
}

// ---- Blocks and totals ----

// None: plain values. Group: one scale for a block. Lane: a block holds several groups, so its scales are a vector.
enum class Scaling { None, Group, Lane };

// Scales of a chunk of blocks, for each row of a set.
template <class S>
struct Scales {
  int shift = 0;                              // Group: log2 of the blocks that share a scale
  alignas(64) float of[kRows][kScaleFloats];  // Group: [group]; Lane: [block][lane]
};

// total + scale * sum: how the sum of a block joins a total.
template <class S, Scaling kScaling>
typename S::F join(typename S::F total, typename S::F sum, const Scales<S>& scales, int row, int64_t block) {
  if constexpr (kScaling == Scaling::None)
    return S::add(total, sum);
  else if constexpr (kScaling == Scaling::Group)
    return S::fma(S::broadcast(scales.of[row] + (block >> scales.shift)), sum, total);
  else
    return S::fma(S::load(scales.of[row] + block * S::kLanes), sum, total);
}

// T tokens against `count` blocks of decoded rows. codes: [count][Steps][kRows] vectors; x: a token every x_stride
// floats; totals: [T][kRows] vectors.
template <class S, int Steps, Scaling kScaling, int T>
void tile(const float* codes, const Scales<S>& scales, const float* x, int64_t x_stride, int64_t count, float* totals) {
  typename S::F total[T][kRows];
  for (int t = 0; t < T; ++t)
    for (int i = 0; i < kRows; ++i) total[t][i] = S::load(totals + (t * kRows + i) * S::kLanes);
  for (int64_t b = 0; b < count; ++b) {
    typename S::F sum[T][kRows];
    for (int k = 0; k < Steps; ++k, codes += kRows * S::kLanes, x += S::kLanes) {
      typename S::F xk[T];
      for (int t = 0; t < T; ++t) xk[t] = S::load(x + t * x_stride);
      for (int i = 0; i < kRows; ++i) {
        const typename S::F q = S::load(codes + i * S::kLanes);
        for (int t = 0; t < T; ++t) sum[t][i] = k == 0 ? S::mul(q, xk[t]) : S::fma(q, xk[t], sum[t][i]);
      }
    }
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < kRows; ++i) total[t][i] = join<S, kScaling>(total[t][i], sum[t][i], scales, i, b);
  }
  for (int t = 0; t < T; ++t)
    for (int i = 0; i < kRows; ++i) S::store(totals + (t * kRows + i) * S::kLanes, total[t][i]);
}

// Any number of tokens: tiles of T, then smaller ones for the rest.
template <class S, int Steps, Scaling kScaling, int T = S::kTokens>
void tiles(const float* codes, const Scales<S>& scales, const float* x, int64_t x_stride, int tokens, int64_t count,
           float* totals) {
  for (; tokens >= T; tokens -= T, x += T * x_stride, totals += T * kRows * S::kLanes)
    tile<S, Steps, kScaling, T>(codes, scales, x, x_stride, count, totals);
  if constexpr (T > 1)
    if (tokens > 0) tiles<S, Steps, kScaling, T - 1>(codes, scales, x, x_stride, tokens, count, totals);
}

// ---- The kernel of a codec D (one of those above) ----

template <class S, class D, Scaling kScaling>
class Kernel {
  using F = typename S::F;
  static constexpr int kLanes = S::kLanes;
  static_assert(kDecodeColumns % D::kColumns == 0);

 public:
  explicit Kernel(const Matrix& matrix) : w_(matrix) {
    blocks_ = (w_.cols + D::kColumns - 1) / D::kColumns;
    const int64_t bytes = int64_t(w_.weight_row_bytes());
    whole_blocks_ = bytes < D::kReads ? 0 : std::min((bytes - D::kReads) / D::kBytes + 1, w_.cols / D::kColumns);
    groups_ = w_.groups();
    if constexpr (kScaling != Scaling::None) group_shift_ = std::countr_zero(unsigned(w_.group_size));
    x_floats_ = blocks_ * D::kColumns + (groups_ + kLanes - 1) / kLanes * kLanes;
  }

  void run(const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride, int64_t begin, int64_t end) const {
    const int64_t fit = kPackedBytes / int64_t(sizeof(float)) / x_floats_ / S::kTokens * S::kTokens;
    const int most = int(std::clamp<int64_t>(fit, S::kTokens, kMaxTokens / S::kTokens * S::kTokens));
    float* packed = thread_scratch(size_t(x_floats_) * size_t(std::min(tokens, most)));
    for (int first = 0; first < tokens; first += most) {
      const int count = std::min(most, tokens - first);
      for (int t = 0; t < count; ++t) pack(x + (first + t) * x_stride, packed + t * x_floats_);
      for (int64_t row = begin; row < end; row += kRows) {
        const int stored = int(std::min<int64_t>(kRows, end - row));
        const RowSet rows = row_set(w_, row, stored);
        alignas(64) float totals[kMaxTokens * kRows * kLanes];  // [count][kRows] vectors
        start_totals(rows, packed, count, totals);
        if (count <= kFewTokens)
          few_tokens(rows, packed, count, totals);
        else
          many_tokens(rows, packed, count, totals);
        for (int t = 0; t < count; ++t)
          for (int i = 0; i < stored; ++i)
            y[(first + t) * y_stride + row + i] =
                S::sum(S::load(totals + (t * kRows + i) * kLanes)) + (w_.bias ? w_.bias[row + i] : 0.f);
      }
    }
  }

 private:
  const Matrix& w_;
  // Of a row. Whole blocks may be read where they are.
  int64_t blocks_, whole_blocks_, groups_;
  int group_shift_ = 0;  // log2 of the group size
  // A packed token: x in the order of the steps, then the sums of its groups, both padded with zeros.
  int64_t x_floats_;

  void pack(const float* x, float* out) const {
    const int64_t whole = w_.cols / D::kColumns;
    for (int64_t b = 0; b < whole; ++b) D::pack(x + b * D::kColumns, out + b * D::kColumns);
    if (whole < blocks_) {
      float padded[D::kColumns] = {};
      std::memcpy(padded, x + whole * D::kColumns, size_t(w_.cols - whole * D::kColumns) * sizeof(float));
      D::pack(padded, out + whole * D::kColumns);
    }
    if constexpr (D::kBias != Bias::None) {
      float* sums = out + blocks_ * D::kColumns;
      for (int64_t g = 0; g < groups_; ++g, x += w_.group_size) {
        F sum = S::load(x);
        for (int c = kLanes; c < w_.group_size; c += kLanes) sum = S::add(sum, S::load(x + c));
        sums[g] = S::sum(sum);
      }
      for (int64_t g = groups_; g % kLanes != 0; ++g) sums[g] = 0;
    }
  }

  // What every sum starts with: bias times group sum, lane l for every group l mod kLanes.
  void start_totals(const RowSet& rows, const float* packed, int tokens, float* totals) const {
    for (int i = 0; i < tokens * kRows; ++i) S::store(totals + i * kLanes, S::zero());
    if constexpr (D::kBias != Bias::None) {
      const bool stored = D::kBias == Bias::Stored;
      alignas(64) float biases[kRows][kGroupsAtOnce];
      for (int64_t first = 0; first < groups_; first += kGroupsAtOnce) {
        const int64_t count = std::min<int64_t>(kGroupsAtOnce, groups_ - first);
        convert_groups<S>(w_, groups_, stored ? w_.biases() : w_.scales(), rows, first, count, stored ? 1 : -6, biases);
        for (int t = 0; t < tokens; ++t) {
          const float* sums = packed + t * x_floats_ + blocks_ * D::kColumns + first;
          for (int i = 0; i < kRows; ++i) {
            float* total = totals + (t * kRows + i) * kLanes;
            F sum = S::load(total);
            for (int64_t g = 0; g < count; g += kLanes) sum = S::fma(S::load(biases[i] + g), S::load(sums + g), sum);
            S::store(total, sum);
          }
        }
      }
    }
  }

  // Scales of `count` blocks from `first` on.
  void convert_scales(const RowSet& rows, int64_t first, int64_t count, Scales<S>& out) const {
    if constexpr (kScaling == Scaling::None) return;
    const int64_t begin = first * D::kColumns >> group_shift_;
    const int64_t end = std::min(groups_, ((first + count) * D::kColumns + w_.group_size - 1) >> group_shift_);
    if constexpr (kScaling == Scaling::Group) {
      out.shift = group_shift_ - std::countr_zero(unsigned(D::kColumns));
      convert_groups<S>(w_, groups_, w_.scales(), rows, begin, end - begin, D::kScale, out.of);
    } else {
      float scales[kRows][kGroupsAtOnce + kLanes];
      convert_groups<S>(w_, groups_, w_.scales(), rows, begin, end - begin, D::kScale, scales);
      const int parts = D::kColumns >> group_shift_;
      for (int i = 0; i < kRows; ++i)
        for (int64_t b = 0; b < count; ++b) S::store(out.of[i] + b * kLanes, S::spread(scales[i] + b * parts, parts));
    }
  }

  // Where a block of a row may be read: in place, or else in `copy`, padded with zeros.
  const std::byte* block_at(const std::byte* row, int64_t block, std::byte* copy) const {
    const std::byte* place = row + block * D::kBytes;
    if (block < whole_blocks_) return place;
    std::memset(copy, 0, D::kReads);
    const int64_t left = int64_t(w_.weight_row_bytes()) - block * D::kBytes;
    std::memcpy(copy, place, size_t(std::min<int64_t>(left, D::kReads)));
    return copy;
  }

  // T tokens against blocks begin .. end - 1 of a chunk, decoded in registers. Row i has block `begin` at codes[i], a
  // token has block 0 at x. totals: [T][kRows] vectors.
  template <int T>
  [[gnu::noinline]] void add_blocks(const std::byte* const* codes, const Scales<S>& scales, const float* x,
                                    int64_t begin, int64_t end, float* totals) const {
    // The next rows follow at this distance. Short rows end before the hardware's own prefetch gets going.
    const int64_t ahead = kRows * int64_t(w_.weight_row_bytes());
    F total[T][kRows];
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < kRows; ++i) total[t][i] = S::load(totals + (t * kRows + i) * kLanes);
    int64_t offset = 0;
    for (int64_t b = begin; b < end; ++b, offset += D::kBytes) {
      typename D::Raw raw[kRows];
      for (int i = 0; i < kRows; ++i) {
        raw[i] = D::load(codes[i] + offset);
        for (int line = 0; line < D::kBytes; line += 64) __builtin_prefetch(codes[i] + offset + ahead + line);
      }
      F sum[T][kRows];
      unrolled<D::kSteps>([&](auto k) __attribute__((always_inline)) {
        F xk[T];
        for (int t = 0; t < T; ++t) xk[t] = S::load(x + t * x_floats_ + b * D::kColumns + k * kLanes);
        for (int i = 0; i < kRows; ++i) {
          const F q = D::template value<k>(raw[i]);
          for (int t = 0; t < T; ++t) sum[t][i] = k == 0 ? S::mul(q, xk[t]) : S::fma(q, xk[t], sum[t][i]);
        }
      });
      for (int t = 0; t < T; ++t)
        for (int i = 0; i < kRows; ++i) total[t][i] = join<S, kScaling>(total[t][i], sum[t][i], scales, i, b);
    }
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < kRows; ++i) S::store(totals + (t * kRows + i) * kLanes, total[t][i]);
  }

  void few_tokens(const RowSet& rows, const float* packed, int tokens, float* totals) const {
    Scales<S> scales;
    constexpr int64_t kChunk = kScaleColumns / D::kColumns;
    for (int64_t first = 0; first < blocks_; first += kChunk) {
      const int64_t count = std::min(kChunk, blocks_ - first);
      convert_scales(rows, first, count, scales);
      const auto add = [&](const std::byte* const* codes, int64_t begin, int64_t end) {
        for (int t = 0; t < tokens; t += 2) {
          const float* x = packed + t * x_floats_ + first * D::kColumns;
          float* total = totals + t * kRows * kLanes;
          t + 2 <= tokens ? add_blocks<2>(codes, scales, x, begin, end, total)
                          : add_blocks<1>(codes, scales, x, begin, end, total);
        }
      };
      const std::byte* codes[kRows];
      for (int i = 0; i < kRows; ++i) codes[i] = rows.codes[i] + first * D::kBytes;
      const int64_t whole = std::clamp<int64_t>(whole_blocks_ - first, 0, count);
      add(codes, 0, whole);
      for (int64_t b = whole; b < count; ++b) {
        std::byte copies[kRows][D::kReads];
        for (int i = 0; i < kRows; ++i) codes[i] = block_at(rows.codes[i], first + b, copies[i]);
        add(codes, b, b + 1);
      }
    }
  }

  void many_tokens(const RowSet& rows, const float* packed, int tokens, float* totals) const {
    alignas(64) float codes[kRows * kDecodeColumns];
    Scales<S> scales;
    constexpr int64_t kChunk = kDecodeColumns / D::kColumns;
    for (int64_t first = 0; first < blocks_; first += kChunk) {
      const int64_t count = std::min(kChunk, blocks_ - first);
      convert_scales(rows, first, count, scales);
      for (int i = 0; i < kRows; ++i)
        for (int64_t b = 0; b < count; ++b) {
          std::byte copy[D::kReads];
          const typename D::Raw raw = D::load(block_at(rows.codes[i], first + b, copy));
          unrolled<D::kSteps>([&](auto k) __attribute__((always_inline)) {
            S::store(codes + ((b * D::kSteps + k) * kRows + i) * kLanes, D::template value<k>(raw));
          });
        }
      tiles<S, D::kSteps, kScaling>(codes, scales, packed + first * D::kColumns, x_floats_, tokens, count, totals);
    }
  }
};

// ---- Which kernel a matrix needs ----

template <class S>
void matmul(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride, int64_t begin,
            int64_t end) {
  const auto run_scaled = [&]<class D, Scaling kScaling>() {
    Kernel<S, D, kScaling>(w).run(x, x_stride, tokens, y, y_stride, begin, end);
  };
  const auto run = [&]<class D>() {
    if constexpr (D::kScale == 0) {
      run_scaled.template operator()<D, Scaling::None>();
    } else if constexpr (D::kMaySplit) {
      D::kColumns > w.group_size ? run_scaled.template operator()<D, Scaling::Lane>()
                                 : run_scaled.template operator()<D, Scaling::Group>();
    } else {
      run_scaled.template operator()<D, Scaling::Group>();
    }
  };
  const auto run_stream = [&]<int B>() {
    constexpr int kMost = 8;  // steps of a block
    switch (w.group_size) {
      case 32:
        return run.template operator()<StreamCodes<S, B, std::min(32 / S::kLanes, kMost)>>();
      case 64:
        return run.template operator()<StreamCodes<S, B, std::min(64 / S::kLanes, kMost)>>();
      default:
        return run.template operator()<StreamCodes<S, B, std::min(128 / S::kLanes, kMost)>>();
    }
  };
  switch (w.codec) {
    case Codec::MxFp4:
    case Codec::NvFp4:
      return run.template operator()<Fp4Codes<S>>();
    case Codec::MxFp8:
      return run.template operator()<Fp8Codes<S>>();
    case Codec::Affine:
      switch (w.bits) {
        case 2:
          return run.template operator()<WordCodes<S, 2>>();
        case 3:
          return run_stream.template operator()<3>();
        case 4:
          return run.template operator()<WordCodes<S, 4>>();
        case 5:
          return run_stream.template operator()<5>();
        case 6:
          return run_stream.template operator()<6>();
        default:
          return run_stream.template operator()<8>();
      }
    case Codec::Plain:
      break;
  }
  switch (w.dtype) {
    case DType::F16:
      return run.template operator()<PlainF16<S>>();
    case DType::BF16:
      return run.template operator()<PlainBf16<S>>();
    default:
      return run.template operator()<PlainF32<S>>();
  }
}

}  // namespace
}  // namespace swiftlet
