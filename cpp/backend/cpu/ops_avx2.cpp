#if defined(__x86_64__)
#include <immintrin.h>

#include "backend/cpu/ops_simd.h"

namespace swiftlet {
namespace {

struct Avx2 {
  using F = __m256;
  static constexpr int kLanes = 8, kRegisters = 16;
  static F zero() { return _mm256_setzero_ps(); }
  static F all(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F load(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  static F load(const int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  static F hold(F v) {
    __asm__("" : "+x"(v));  // or gcc loads it anew for each use
    return v;
  }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F round(F v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F halve(F n) { return _mm256_floor_ps(_mm256_mul_ps(n, _mm256_set1_ps(0.5f))); }
  static F pow2(F n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  static float sum(F v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  static void sum4(F a, F b, F c, F d, float* out) {
    const auto halves = [](F x, F y) {
      return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
    };
    const F ac = halves(a, c), bd = halves(b, d);
    F s = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xee));
    s = _mm256_add_ps(s, _mm256_movehdup_ps(s));
    _mm_storeu_ps(out, _mm_shuffle_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1), 0x88));
  }
  static float top(F v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
};

}  // namespace

constinit const CpuOps avx2_ops = SimdOps<Avx2>::table("avx2", matmul_avx2, {pack_avx2, integer_matmul_avx2});
constinit const CpuOps avxvnni_ops = SimdOps<Avx2>::table("avxvnni", matmul_avx2, {pack_avx2, integer_matmul_avxvnni});

}  // namespace swiftlet
#endif
