// A shader as CUDA C++ for NVRTC (-default-device). A kernel is chosen by defining MSL_ENTRY_name; the values of
// function constants are MSL_CONSTANT_index. Threadgroups have one dimension, and SIMD groups are warps, all of whose
// lanes run.
#pragma once

#define MSL_FN __device__ __forceinline__

// Of libdevice, which NVRTC links.
extern "C" __device__ unsigned short __nv_float2half_rn(float f);
extern "C" __device__ float __nv_half2float(unsigned short bits);

namespace msl {

// The one parameter of each kernel, as cpp/backend/gpu/cuda/cuda_device.cpp fills it.
struct Args {
  void* buffers[16];
  alignas(16) unsigned char arguments[256];
};
struct Uint3 {
  unsigned x, y, z;
};

MSL_FN float bits_to_f32(unsigned bits) { return __uint_as_float(bits); }
// Without inline assembly, in whose presence the compiler no longer sees that pointers lead to global memory.
MSL_FN unsigned short f32_to_f16(float f) { return __nv_float2half_rn(f); }
MSL_FN float f16_to_f32(unsigned short bits) { return __nv_half2float(bits); }
MSL_FN unsigned short f32_to_bf16(float f) {
  const unsigned bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40);  // a NaN stays one
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

}  // namespace msl

#define __builtin_memcpy memcpy
#include "msl_types.h"

namespace msl {

// Where the arguments of a kernel come from.
template <int I>
struct Buffer {
  static MSL_FN void* pointer(const Args& a) { return a.buffers[I]; }
};
struct Arguments {
  static MSL_FN const void* pointer(const Args& a) { return a.arguments; }
};
#define MSL_BUILTIN(name, x, y, z)                    \
  struct name {                                       \
    static MSL_FN Uint3 value() { return {x, y, z}; } \
  };
MSL_BUILTIN(ThreadPositionInThreadgroup, threadIdx.x, 0, 0)
MSL_BUILTIN(ThreadgroupPositionInGrid, blockIdx.x, blockIdx.y, blockIdx.z)
MSL_BUILTIN(ThreadPositionInGrid, blockIdx.x* blockDim.x + threadIdx.x, blockIdx.y, blockIdx.z)
MSL_BUILTIN(ThreadsPerThreadgroup, blockDim.x, 1, 1)
MSL_BUILTIN(ThreadgroupsPerGrid, gridDim.x, gridDim.y, gridDim.z)
MSL_BUILTIN(ThreadsPerGrid, gridDim.x* blockDim.x, gridDim.y, gridDim.z)
MSL_BUILTIN(ThreadIndexInSimdgroup, threadIdx.x & 31, 0, 0)
MSL_BUILTIN(SimdgroupIndexInThreadgroup, threadIdx.x >> 5, 0, 0)
MSL_BUILTIN(SimdgroupsPerThreadgroup, blockDim.x >> 5, 1, 1)
MSL_BUILTIN(ThreadsPerSimdgroup, 32, 0, 0)
#undef MSL_BUILTIN

}  // namespace msl

#include "msl_entry.h"

#define MSL_KERNEL static __device__ __forceinline__
#define MSL_CONSTANT static const
// MSL_VALUE_index: a body that returns the value, or, if it was not given, calls what does not exist: then kernels that
// use it don't link.
#define MSL_FUNCTION_CONSTANT(name, index) MSL_FN uint name() MSL_VALUE_##index
#define MSL_THREADGROUP __shared__
#ifdef MSL_THREADS
#define MSL_BOUNDS __launch_bounds__(MSL_THREADS)
#else
#define MSL_BOUNDS
#endif
#define MSL_THREADGROUP_INIT(name)

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)

namespace metal {

using ::abs;
using ::ceil;
using ::cos;
using ::exp;
using ::exp2;
using ::fabs;
using ::floor;
using ::fma;
using ::fmax;
using ::fmin;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::log;
using ::log2;
using ::max;
using ::min;
using ::pow;
using ::rint;
using ::round;
using ::rsqrt;
using ::sin;
using ::sqrt;
using ::tanh;
using ::trunc;
namespace precise {
using ::cos;
using ::exp;
using ::log;
using ::pow;
using ::rsqrt;
using ::sin;
using ::sqrt;
using ::tanh;
}  // namespace precise
namespace fast {
MSL_FN float exp(float x) { return __expf(x); }
MSL_FN float log(float x) { return __logf(x); }
using ::cos;
using ::pow;
using ::rsqrt;
using ::sin;
using ::sqrt;
using ::tanh;
}  // namespace fast
MSL_FN unsigned popcount(unsigned x) { return __popc(x); }
MSL_FN unsigned clz(unsigned x) { return __clz(x); }
MSL_FN unsigned ctz(unsigned x) { return x ? __ffs(x) - 1 : 32; }

MSL_FN void threadgroup_barrier(mem_flags) { __syncthreads(); }
MSL_FN void simdgroup_barrier(mem_flags) { __syncwarp(); }

constexpr unsigned kAllLanes = 0xffffffffu;
// Moves a value between lanes by its 32-bit words, with a function that moves one.
template <class T, class F>
MSL_FN T msl_move(T value, F move) {
  static_assert(sizeof(T) <= 8, "SIMD operations move 64 bits at most");
  unsigned words[2] = {0, 0};
  memcpy(words, &value, sizeof value);
  words[0] = move(words[0]);
  if (sizeof(T) > 4) words[1] = move(words[1]);
  memcpy(&value, words, sizeof value);
  return value;
}
#define MSL_SHUFFLE(name, intrinsic)                                                      \
  template <class T>                                                                      \
  MSL_FN T name(T value, ushort n) {                                                      \
    return msl_move(value, [=](unsigned word) { return intrinsic(kAllLanes, word, n); }); \
  }
MSL_SHUFFLE(simd_shuffle, __shfl_sync)
MSL_SHUFFLE(simd_broadcast, __shfl_sync)
MSL_SHUFFLE(simd_shuffle_xor, __shfl_xor_sync)
MSL_SHUFFLE(simd_shuffle_down, __shfl_down_sync)
MSL_SHUFFLE(simd_shuffle_up, __shfl_up_sync)
#undef MSL_SHUFFLE
template <class T>
MSL_FN T simd_broadcast_first(T value) {
  return simd_shuffle(value, 0);
}
#define MSL_REDUCTION(name, expression)                  \
  template <class T>                                     \
  MSL_FN T name(T a) {                                   \
    for (int distance = 16; distance; distance /= 2) {   \
      const T b = simd_shuffle_xor(a, ushort(distance)); \
      a = T(expression);                                 \
    }                                                    \
    return a;                                            \
  }
MSL_REDUCTION(simd_sum, a + b)
MSL_REDUCTION(simd_product, a* b)
MSL_REDUCTION(simd_max, a < b ? b : a)
MSL_REDUCTION(simd_min, b < a ? b : a)
MSL_REDUCTION(simd_and, a& b)
MSL_REDUCTION(simd_or, a | b)
#undef MSL_REDUCTION
MSL_FN bool simd_any(bool value) { return __any_sync(kAllLanes, value); }
MSL_FN bool simd_all(bool value) { return __all_sync(kAllLanes, value); }
MSL_FN int msl_lane() { return int(threadIdx.x & 31); }
template <class T>
MSL_FN T simd_prefix_inclusive_sum(T value) {
  for (int distance = 1; distance < 32; distance *= 2) {
    const T below = simd_shuffle_up(value, ushort(distance));
    if (msl_lane() >= distance) value = T(value + below);
  }
  return value;
}
template <class T>
MSL_FN T simd_prefix_exclusive_sum(T value) {
  const T below = simd_shuffle_up(simd_prefix_inclusive_sum(value), 1);
  return msl_lane() == 0 ? T(0) : below;
}

template <class T, class U>
MSL_FN T atomic_fetch_add_explicit(atomic<T>* object, U operand, memory_order) {
  return atomicAdd(&object->value, T(operand));
}
template <class T>
MSL_FN T atomic_load_explicit(const atomic<T>* object, memory_order) {
  return *(const volatile T*)&object->value;
}
template <class T, class U>
MSL_FN void atomic_store_explicit(atomic<T>* object, U desired, memory_order) {
  *(volatile T*)&object->value = T(desired);
}

}  // namespace metal

#include "msl_matrix.h"

namespace metal {

template <class D, class A, class B, class C>
MSL_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                          const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<C, 8, 8>& c) {
  typedef simdgroup_float8x8 M;
  const int row = M::row_of(msl_lane()), column = M::column_of(msl_lane());
  const float a0 = a.held[0], a1 = a.held[1], b0 = b.held[0], b1 = b.held[1];
  float sum[2] = {float(c.held[0]), float(c.held[1])};
#pragma unroll
  for (int k = 0; k < 8; k++) {
    const float a_rk = __shfl_sync(kAllLanes, k & 1 ? a1 : a0, M::holder(row, k));
    const int holder = M::holder(k, column);
    sum[0] += a_rk * __shfl_sync(kAllLanes, b0, holder);
    sum[1] += a_rk * __shfl_sync(kAllLanes, b1, holder);
  }
  d.held[0] = D(sum[0]);
  d.held[1] = D(sum[1]);
}

}  // namespace metal

#include "msl_names.h"
