#if defined(__aarch64__)
#include <arm_neon.h>

#include "backend/cpu/ops_simd.h"

namespace swiftlet {
namespace {

struct Neon {
  using F = float32x4_t;
  static constexpr int kLanes = 4, kRegisters = 32;
  static F zero() { return vdupq_n_f32(0); }
  static F all(float x) { return vdupq_n_f32(x); }
  static F load(const float* p) { return vld1q_f32(p); }
  static F load(const uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  static F load(const int8_t* p) {
    int32_t four;
    std::memcpy(&four, p, sizeof(four));
    const int16x8_t wide = vmovl_s8(vcreate_s8(uint64_t(uint32_t(four))));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
  }
  static void store(float* p, F v) { vst1q_f32(p, v); }
  static F hold(F v) {
    __asm__("" : "+w"(v));  // or gcc loads it anew for each use
    return v;
  }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F sub(F a, F b) { return vsubq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F div(F a, F b) { return vdivq_f32(a, b); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F min(F a, F b) { return vminq_f32(a, b); }
  static F max(F a, F b) { return vmaxq_f32(a, b); }
  static F round(F v) { return vrndnq_f32(v); }
  static F halve(F n) { return vrndmq_f32(vmulq_n_f32(n, 0.5f)); }
  static F pow2(F n) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23)); }
  static float sum(F v) { return vaddvq_f32(v); }
  static void sum4(F a, F b, F c, F d, float* out) { vst1q_f32(out, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d))); }
  static float top(F v) { return vmaxvq_f32(v); }
};

}  // namespace

constinit const CpuOps neon_ops = SimdOps<Neon>::table("neon", matmul_neon, {});
constinit const CpuOps dotprod_ops =
    SimdOps<Neon>::table("dotprod", matmul_neon, {pack_dotprod, integer_matmul_dotprod});

}  // namespace swiftlet
#endif
