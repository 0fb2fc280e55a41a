// The integer matmul with AVX2, whose sums of two products of bytes have 16 bits; and what packs x on x86-64.
#if defined(__x86_64__)
#include "backend/cpu/integer_x86.h"

namespace swiftlet {
namespace {

struct Avx2Bytes : Avx2Lanes {
  static constexpr int kTokens = 2;  // of a tile: with two vectors of rows 8 of the 16 registers for sums

  // A sum of two products is at most 2 * 15 * 128, so 8 of them fit into 16 bits: those of 4 words of codes.
  template <int kBits, int T>
    requires(kBits == 4)
  [[gnu::always_inline]] static void dot(const std::byte* const* codes_of, const PackedBlock* const* x,
                                         V (*sums)[1][2]) {
    const std::byte* words = codes_of[0];
    const V weigh_high = _mm256_set1_epi16(256), weigh_low = _mm256_set1_epi16(1);
    for (int half = 0; half < 2; ++half) {
      V high[T][2], low[T][2];
      for (int t = 0; t < T; ++t)
        for (int v = 0; v < 2; ++v) high[t][v] = low[t][v] = _mm256_setzero_si256();
      const auto add = [&](int k) __attribute__((always_inline)) {
        Codes rows[2];
        for (int v = 0; v < 2; ++v) {
          rows[v] = codes<kBits>(words + 64 * k + 32 * v);
          __asm__("" : "+x"(rows[v].even), "+x"(rows[v].odd));  // in registers, or gcc computes them for each token
        }
        for (int t = 0; t < T; ++t) {
          const auto each = [&](const int8_t* columns, V Codes::* which, V* sum) __attribute__((always_inline)) {
            const V q = broadcast(columns);
            for (int v = 0; v < 2; ++v) sum[v] = _mm256_add_epi16(sum[v], _mm256_maddubs_epi16(rows[v].*which, q));
          };
          each(x[t]->high + 4 * k, &Codes::even, high[t]);
          each(x[t]->low + 4 * k, &Codes::even, low[t]);
          each(x[t]->high + 32 + 4 * k, &Codes::odd, high[t]);
          each(x[t]->low + 32 + 4 * k, &Codes::odd, low[t]);
        }
      };
      add(4 * half);
      add(4 * half + 1);
      add(4 * half + 2);
      add(4 * half + 3);
      for (int t = 0; t < T; ++t)
        for (int v = 0; v < 2; ++v) {
          const V sum =
              _mm256_add_epi32(_mm256_madd_epi16(high[t][v], weigh_high), _mm256_madd_epi16(low[t][v], weigh_low));
          sums[t][0][v] = half ? _mm256_add_epi32(sums[t][0][v], sum) : sum;
        }
    }
  }

  // The sum of two products of 8-bit codes needs more than 16 bits, so words of 16 bits are multiplied: columns 0 and 2
  // of the four of a word, then 1 and 3.
  template <int kBits, int T>
    requires(kBits == 8)
  [[gnu::always_inline]] static void dot(const std::byte* const* codes_of, const PackedBlock* const* x,
                                         V (*sums)[1][2]) {
    const std::byte* words = codes_of[0];
    const V low_byte = _mm256_set1_epi16(0xff);
    alignas(32) int16_t q[T][2][kBlockColumns / 2];
    for (int t = 0; t < T; ++t) {
      for (int half = 0; half < kBlockColumns; half += 32) {
        const V high = load_bytes(x[t]->high + half), low = load_bytes(x[t]->low + half);
        const auto put = [&](int which, V high_of, V low_of) {  // bytes of which the upper one counts
          const V sum = _mm256_add_epi16(_mm256_andnot_si256(low_byte, high_of), _mm256_srai_epi16(low_of, 8));
          _mm256_store_si256(reinterpret_cast<V*>(q[t][which] + half / 2), sum);
        };
        put(0, _mm256_slli_epi16(high, 8), _mm256_slli_epi16(low, 8));
        put(1, high, low);
      }
      for (int v = 0; v < 2; ++v) sums[t][0][v] = _mm256_setzero_si256();
    }
    for (int k = 0; k < kBlockColumns / 4; ++k) {
      V rows[2][2];
      for (int v = 0; v < 2; ++v) {
        const V bytes = load_bytes(words + 64 * k + 32 * v);
        rows[0][v] = _mm256_and_si256(bytes, low_byte);
        rows[1][v] = _mm256_srli_epi16(bytes, 8);
      }
      for (int t = 0; t < T; ++t)
        for (int which = 0; which < 2; ++which) {
          const V columns = broadcast(q[t][which] + 2 * k);
          for (int v = 0; v < 2; ++v)
            sums[t][0][v] = _mm256_add_epi32(sums[t][0][v], _mm256_madd_epi16(rows[which][v], columns));
        }
    }
  }
};

using V = __m256i;

int32_t sum_of_lanes(V v) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

uint32_t largest_lane(V v) {
  __m128i most = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
  return uint32_t(_mm_cvtsi128_si32(_mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1))));
}

PackedSteps pack_block(const float* x, PackedBlock& out) {
  const V magnitude = _mm256_set1_epi32(0x7fffffff);
  V largest = _mm256_setzero_si256();
  for (int i = 0; i < kBlockColumns; i += 8)
    largest = _mm256_max_epi32(largest, _mm256_and_si256(Avx2Lanes::load_bytes(x + i), magnitude));
  const float step = step_of(largest_lane(largest));
  if (std::isnan(step)) {
    out = {};
    return {step, step};
  }
  const __m256 inverse = _mm256_set1_ps(1 / step);
  const V low_bytes =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, -1, -1, -1, -1, -1, -1, -1, -1));
  const V high_bytes =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 1, 5, 9, 13, 3, 7, 11, 15));
  V sum = _mm256_setzero_si256(), bytes[4];
  for (int i = 0; i < 4; ++i) {
    const auto whole = [&](const float* from) {
      return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from), inverse));
    };
    const V a = whole(x + 16 * i), b = whole(x + 16 * i + 8);
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(a, b));
    const V q = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);  // 16 columns in their order
    // As the low byte is signed, the high one is that of q + 128. Of 8 columns a word of each half of low and high.
    bytes[i] = _mm256_or_si256(_mm256_shuffle_epi8(q, low_bytes),
                               _mm256_shuffle_epi8(_mm256_add_epi16(q, _mm256_set1_epi16(128)), high_bytes));
  }
  // Word j of every half, in the order of the halves.
  const V low_01 = _mm256_unpacklo_epi32(bytes[0], bytes[1]), low_23 = _mm256_unpacklo_epi32(bytes[2], bytes[3]);
  const V high_01 = _mm256_unpackhi_epi32(bytes[0], bytes[1]), high_23 = _mm256_unpackhi_epi32(bytes[2], bytes[3]);
  const auto put = [&](int8_t* to, V v) {  // the lower halves come first in it, then the upper ones
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<V*>(to), v);
  };
  put(out.low, _mm256_unpacklo_epi64(low_01, low_23));
  put(out.low + 32, _mm256_unpackhi_epi64(low_01, low_23));
  put(out.high, _mm256_unpacklo_epi64(high_01, high_23));
  put(out.high + 32, _mm256_unpackhi_epi64(high_01, high_23));
  return {step, step * float(sum_of_lanes(sum))};
}

}  // namespace

void pack_avx2(const float* x, int64_t cols, std::byte* out) { pack_blocks<pack_block>(x, cols, out); }

void integer_matmul_avx2(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride, int64_t row_begin,
                         int64_t row_end) {
  IntegerKernel<Avx2Bytes>(w, x, y, y_stride, row_begin, row_end).run(tokens);
}

}  // namespace swiftlet
#endif
