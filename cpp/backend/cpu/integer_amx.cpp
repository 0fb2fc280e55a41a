// The integer matmul with AMX, for many tokens; a few go to AVX-512 VNNI.
#if defined(__x86_64__)
#include "backend/cpu/integer_avx512.h"
#include "backend/cpu/integer_tiles.h"

namespace swiftlet {
namespace {

constexpr int kFewTokens = 5;  // up to here VNNI is as fast or faster: 5 tokens alike, 3 1.4 times as fast

// Tiles 0 .. 3: sums, high and low, of either set; 4, 5: x, high and low; 6, 7: the panels.
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

  static void unpack(const std::byte* codes, std::byte* panel) {
    for (int k = 0; k < 8; ++k) {
      const Avx512Lanes::Codes rows = Avx512Lanes::codes<4>(codes + 64 * k);
      _mm512_store_si512(panel + 64 * k, rows.even);
      _mm512_store_si512(panel + 64 * (8 + k), rows.odd);
    }
  }

  static void load(const PackedBlock* x, int64_t stride) {
    __asm__ volatile("" : : : "memory");  // gcc does not know that tiles are loaded from memory
    _tile_loadd(4, x->high, stride);
    _tile_loadd(5, x->low, stride);
  }

  // The intrinsics are macros that put the number of a tile into assembly as it is written.
  template <int kSet>
  static void multiply(const std::byte* panel, TileSums& sums) {
    __asm__ volatile("" : : : "memory");
    if constexpr (kSet == 0) {
      _tile_loadd(6, panel, 64);
      _tile_zero(0);
      _tile_dpbsud(0, 4, 6);
      _tile_zero(1);
      _tile_dpbsud(1, 5, 6);
      _tile_stored(0, sums.high, 64);
      _tile_stored(1, sums.low, 64);
    } else {
      _tile_loadd(7, panel, 64);
      _tile_zero(2);
      _tile_dpbsud(2, 4, 7);
      _tile_zero(3);
      _tile_dpbsud(3, 5, 7);
      _tile_stored(2, sums.high, 64);
      _tile_stored(3, sums.low, 64);
    }
    __asm__ volatile("" : : : "memory");
  }
};

}  // namespace

void integer_matmul_amx(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride, int64_t row_begin,
                        int64_t row_end) {
  if (tokens > kFewTokens)
    TileKernel<Avx512Lanes, Amx>(w, x).run(tokens, y, y_stride, row_begin, row_end);
  else
    integer_matmul_avx512vnni(w, x, tokens, y, y_stride, row_begin, row_end);
}

}  // namespace swiftlet
#endif
