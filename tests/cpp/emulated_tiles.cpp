// The matmul of processors that multiply tiles where there is only AVX2: tiles of 8 rows, in plain loops.
#if defined(__x86_64__)
#include "tests/cpp/emulated_tiles.h"

#include "backend/cpu/integer_tiles.h"

namespace swiftlet::test {
namespace {

thread_local int tile_tokens = 0;

struct Emulated {
  explicit Emulated(int tokens) { tile_tokens = tokens; }
  ~Emulated() { tile_tokens = 0; }

  // sums[t][r] = sum of x[t][c] * codes[c / 4][r][c % 4], of which x is signed and codes are not
  static void dot(const int8_t* x, int64_t stride, const ByteColumns::Panel& panel, int32_t (*sums)[8]) {
    uint8_t codes[16][8][4];
    std::memcpy(codes, panel.words, sizeof(codes));
    for (int t = 0; t < tile_tokens; ++t)
      for (int r = 0; r < 8; ++r) {
        sums[t][r] = 0;
        for (int c = 0; c < kBlock; ++c) sums[t][r] += x[t * stride + c] * codes[c / 4][r][c % 4];
      }
  }
  static void multiply(const ByteColumns::Block* x, int64_t stride, const ByteColumns::Panel* panels,
                       TileSums<ByteColumns>& sums) {
    for (int v = 0; v < kTileVectors; ++v) {
      dot(x->high, stride, panels[v], sums.high[v]);
      dot(x->low, stride, panels[v], sums.low[v]);
    }
  }
};

}  // namespace

void matmul_emulated_tiles(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                           int64_t row_begin, int64_t row_end) {
  TileKernel<ByteColumns, Emulated>(w).run(x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet::test
#endif
