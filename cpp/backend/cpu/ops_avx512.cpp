#if defined(__x86_64__)
// The intrinsics of gcc 12 start from vectors that are uninitialized on purpose, and it warns of its own header.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "backend/cpu/ops_simd.h"

namespace swiftlet {
namespace {

struct Avx512 {
  using F = __m512;
  static constexpr int kLanes = 16, kRegisters = 32;
  static F zero() { return _mm512_setzero_ps(); }
  static F all(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static F load(const int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  static F hold(F v) {
    __asm__("" : "+v"(v));  // or gcc loads it anew for each use
    return v;
  }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F round(F v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F halve(F n) { return _mm512_floor_ps(_mm512_mul_ps(n, _mm512_set1_ps(0.5f))); }
  static F pow2(F n) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
  }
  static float sum(F v) {  // not _mm512_reduce_add_ps: its order is the compiler's
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static void sum4(F a, F b, F c, F d, float* out) {
    const auto halves = [](F x, F y) {
      return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee));
    };
    const F ab = halves(a, b), cd = halves(c, d);
    F s = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    s = _mm512_add_ps(s, _mm512_shuffle_ps(s, s, 0x4e));
    s = _mm512_add_ps(s, _mm512_movehdup_ps(s));
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, s)));
  }
  static float top(F v) { return _mm512_reduce_max_ps(v); }
};

}  // namespace

constinit const CpuOps avx512_ops = SimdOps<Avx512>::table("avx512", matmul_avx512, {pack_avx2, integer_matmul_avx2});
constinit const CpuOps avx512vnni_ops =
    SimdOps<Avx512>::table("avx512vnni", matmul_avx512, {pack_avx2, integer_matmul_avx512vnni});
constinit const CpuOps amx_ops = SimdOps<Avx512>::table("amx", matmul_avx512, {pack_avx2, integer_matmul_amx});

}  // namespace swiftlet
#endif
