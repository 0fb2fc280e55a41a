// The matmul of processors that multiply tiles where there is only AVX2: the unit is plain loops.
#if defined(__x86_64__)
#include "tests/cpp/emulated_tiles.h"

#include "backend/cpu/codec.h"
#include "backend/cpu/integer_tiles.h"
#include "backend/cpu/integer_x86.h"

namespace swiftlet::test {
namespace {

struct Lanes : Avx2Lanes {
  static F load(const float* values) { return _mm256_loadu_ps(values); }
  static V whole(V high, V low) { return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low); }
};

thread_local int tile_tokens = 0;
thread_local const PackedBlock* loaded = nullptr;
thread_local int64_t loaded_stride = 0;

struct Emulated {
  explicit Emulated(int tokens) { tile_tokens = tokens; }
  ~Emulated() { tile_tokens = 0; }

  // Where the code of row r is that is multiplied with byte `at` of x.
  static int place(int at, int r) { return (at / 4 * kSetRows + r) * 4 + at % 4; }

  static void unpack(const std::byte* codes, std::byte* panel) {
    for (int r = 0; r < kSetRows; ++r)
      for (int c = 0; c < kBlockColumns; ++c) {
        const std::byte* word = codes + (c / 8 * kSetRows + r) * 4;
        const int at = c % 2 * kBlockColumns / 2 + c / 2;  // even columns first
        panel[place(at, r)] = std::byte(code_at(word, 4, c % 8));
      }
  }

  // sums[t][r] = sum of x[t][at] * codes, of which x is signed and codes are not
  static void dot(const int8_t* x, int64_t stride, const std::byte* panel, int32_t (*sums)[kSetRows]) {
    for (int t = 0; t < tile_tokens; ++t)
      for (int r = 0; r < kSetRows; ++r) {
        sums[t][r] = 0;
        for (int at = 0; at < kBlockColumns; ++at) sums[t][r] += x[t * stride + at] * int(panel[place(at, r)]);
      }
  }
  static void load(const PackedBlock* x, int64_t stride) {
    loaded = x;
    loaded_stride = stride;
  }
  template <int>
  static void multiply(const std::byte* panel, TileSums& sums) {
    dot(loaded->high, loaded_stride, panel, sums.high);
    dot(loaded->low, loaded_stride, panel, sums.low);
  }
};

}  // namespace

void integer_matmul_emulated_tiles(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                                   int64_t row_begin, int64_t row_end) {
  TileKernel<Lanes, Emulated>(w, x).run(tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet::test
#endif
