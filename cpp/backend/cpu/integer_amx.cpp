// The integer matmul with AMX, for many tokens; a few go to AVX-512 VNNI.
#if defined(__x86_64__)
#include "backend/cpu/integer_tiles.h"

namespace swiftlet {
namespace {

struct Avx512Bytes {
  using F = __m512;
  using V = __m512i;
  using Block = ByteColumns::Block;
  static constexpr int kLanes = 16;

  static F set1(float value) { return _mm512_set1_ps(value); }
  static F load(const float* values) { return _mm512_loadu_ps(values); }
  static void store(float* values, F v) { _mm512_storeu_ps(values, v); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F to_float(V v) { return _mm512_cvtepi32_ps(v); }
  static V load_bytes(const void* p) { return _mm512_loadu_si512(p); }
  static V whole(V high, V low) { return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low); }
  static PackedSteps pack(const float* x, Block& out) { return ByteColumns::pack(x, out); }

  static void convert(DType dtype, const std::byte* const* rows, int count, float (*out)[16]) {
    for (int half = 0; half < 16; half += 8) {
      alignas(64) float eight[kChunkBlocks][8];
      ByteColumns::convert(dtype, rows + half, count, eight);
      for (int g = 0; g < count; ++g) std::memcpy(out[g] + half, eight[g], sizeof(eight[g]));
    }
  }

  // As that of ByteColumns, of 16 rows: a tile as the unit wants it.
  struct Panel {
    V words[16];
  };
  static void lay_out(const std::byte* const* rows, Panel& panel) {
    // The bytes are transposed as words of 8 codes. Two rows lie side by side, those that end up in neighbouring
    // quarters of a vector.
    V in[8], a[8], b[8];
    for (int i = 0; i < 8; ++i) {
      const int row = i < 4 ? i : i + 4;
      in[i] = _mm512_inserti64x4(_mm512_castsi256_si512(ByteColumns::load_bytes(rows[row])),
                                 ByteColumns::load_bytes(rows[row + 4]), 1);
    }
    for (int i = 0; i < 8; i += 2) {
      a[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
      a[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
      for (int j = 0; j < 2; ++j) {
        b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + j + 2]);
        b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + j + 2]);
      }
    const V mask = _mm512_set1_epi8(0x0f);
    const auto put = [&](int k, V words) {
      panel.words[k] = _mm512_and_si512(words, mask);
      panel.words[k + 8] = _mm512_and_si512(_mm512_srli_epi16(words, 4), mask);
    };
    for (int i = 0; i < 4; ++i) {
      put(i, _mm512_shuffle_i64x2(b[i], b[i + 4], 0x88));
      put(i + 4, _mm512_shuffle_i64x2(b[i], b[i + 4], 0xdd));
    }
  }
};

// Tiles 0 .. 3: sums, high and low, of either panel; 4, 5: x, high and low; 6, 7: the panels.
struct Amx {
  explicit Amx(int tokens) {
    struct {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16];
    } config;
    static_assert(sizeof(config) == 64);
    std::fill_n(config.rows, 16, uint8_t(0));
    std::fill_n(config.rows, 6, uint8_t(tokens));
    std::fill_n(config.rows + 6, 2, uint8_t(16));
    __asm__ volatile("" : : "m"(config));  // gcc 12 thinks that 8 bytes of it are read
    _tile_loadconfig(&config);
  }
  ~Amx() { _tile_release(); }
  Amx(const Amx&) = delete;
  Amx& operator=(const Amx&) = delete;

  static void multiply(const ByteColumns::Block* x, int64_t stride, const Avx512Bytes::Panel* panels,
                       TileSums<Avx512Bytes>& sums) {
    __asm__ volatile("" : : : "memory");  // gcc does not know that tiles are loaded from memory
    _tile_loadd(6, panels[0].words, 64);
    _tile_loadd(4, x->high, stride);
    _tile_zero(0);
    _tile_dpbsud(0, 4, 6);
    _tile_loadd(5, x->low, stride);
    _tile_zero(1);
    _tile_dpbsud(1, 5, 6);
    _tile_loadd(7, panels[1].words, 64);
    _tile_zero(2);
    _tile_dpbsud(2, 4, 7);
    _tile_zero(3);
    _tile_dpbsud(3, 5, 7);
    _tile_stored(0, sums.high[0], 64);
    _tile_stored(1, sums.low[0], 64);
    _tile_stored(2, sums.high[1], 64);
    _tile_stored(3, sums.low[1], 64);
    __asm__ volatile("" : : : "memory");
  }
};

}  // namespace

void matmul_amx(const Matrix& w, const float* x, int64_t x_stride, int tokens, float* y, int64_t y_stride,
                int64_t row_begin, int64_t row_end) {
  if (in_integers(w) && tokens > kFewTokens)
    TileKernel<Avx512Bytes, Amx>(w).run(x, x_stride, tokens, y, y_stride, row_begin, row_end);
  else
    matmul_avx512vnni(w, x, x_stride, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
