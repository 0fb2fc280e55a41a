// A shader as C++ for the emulated device. A threadgroup's threads are fibers on one OS thread: they switch at barriers
// and SIMD operations (cpp/backend/gpu/emulated/threadgroup.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "backend/gpu/emulated/kernel.h"
#include "backend/gpu/emulated/threadgroup.h"

#define MSL_FN inline

namespace msl {

using namespace swiftlet::gpu::emulated;

inline float bits_to_f32(unsigned bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
inline unsigned short f32_to_bf16(float f) {
  unsigned bits;
  memcpy(&bits, &f, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40);  // a NaN stays one
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
#if defined(__F16C__)
inline unsigned short f32_to_f16(float f) { return (unsigned short)_cvtss_sh(f, 0); }
inline float f16_to_f32(unsigned short bits) { return _cvtsh_ss(bits); }
#elif defined(__aarch64__)
inline unsigned short f32_to_f16(float f) {
  const __fp16 h = (__fp16)f;
  unsigned short bits;
  memcpy(&bits, &h, 2);
  return bits;
}
inline float f16_to_f32(unsigned short bits) {
  __fp16 h;
  memcpy(&h, &bits, 2);
  return (float)h;
}
#else
#error "half needs conversions: compile with -mf16c"
#endif

}  // namespace msl

#include "msl_types.h"

namespace msl {

// Where the arguments of a kernel come from.
template <int I>
struct Buffer {
  static void* pointer(const Args& a) { return a.buffers[I]; }
};
struct Arguments {
  static const void* pointer(const Args& a) { return a.arguments; }
};
#define MSL_BUILTIN(name, ...)          \
  struct name {                         \
    static Uint3 value() {              \
      const Threadgroup& t = current(); \
      return __VA_ARGS__;               \
    }                                   \
  };
MSL_BUILTIN(ThreadPositionInThreadgroup, {t.thread, 0, 0})
MSL_BUILTIN(ThreadgroupPositionInGrid, t.position)
MSL_BUILTIN(ThreadPositionInGrid, {t.position.x * t.threads + t.thread, t.position.y, t.position.z})
MSL_BUILTIN(ThreadsPerThreadgroup, {t.threads, 1, 1})
MSL_BUILTIN(ThreadgroupsPerGrid, t.groups)
MSL_BUILTIN(ThreadsPerGrid, {t.groups.x * t.threads, t.groups.y, t.groups.z})
MSL_BUILTIN(ThreadIndexInSimdgroup, {t.thread % 32, 0, 0})
MSL_BUILTIN(SimdgroupIndexInThreadgroup, {t.thread / 32, 0, 0})
MSL_BUILTIN(SimdgroupsPerThreadgroup, {t.threads / 32, 0, 0})
MSL_BUILTIN(ThreadsPerSimdgroup, {32, 0, 0})
#undef MSL_BUILTIN

}  // namespace msl

#include "msl_entry.h"

namespace msl {

// What the device checks bindings against.
template <class P>
struct ParameterInfo {
  static constexpr BufferInfo buffer{};  // not a buffer
  static constexpr uint32_t argument_bytes = 0;
};
template <class T>
struct ParameterInfo<T*> {
  static constexpr BufferInfo buffer{alignof(T), true};
  static constexpr uint32_t argument_bytes = 0;
};
template <class T>
struct ParameterInfo<const T*> {
  static constexpr BufferInfo buffer{alignof(T), false};
  static constexpr uint32_t argument_bytes = 0;
};
template <class T>
struct ParameterInfo<const T&> {
  static constexpr BufferInfo buffer{};
  static constexpr uint32_t argument_bytes = sizeof(T);
};
template <auto Function>
struct Signature;
template <class... P, void (*Function)(P...)>
struct Signature<Function> {
  static constexpr SignatureInfo make() {
    SignatureInfo result{};
    for (const BufferInfo& buffer : {ParameterInfo<P>::buffer...})
      if (buffer.alignment != 0) result.buffers[result.buffer_count++] = buffer;
    result.argument_bytes = (ParameterInfo<P>::argument_bytes + ...);
    return result;
  }
  static constexpr SignatureInfo info = make();
};

}  // namespace msl

#define MSL_KERNEL static
#define MSL_CONSTANT static const
#define MSL_FUNCTION_CONSTANT(name, index)                                  \
  static msl::FunctionConstant msl_constant_##name{#name, index, 0, false}; \
  static inline uint name() { return msl::function_constant(msl_constant_##name); }
#define MSL_THREADGROUP static thread_local
#define MSL_THREADGROUP_INIT(name)             \
  static thread_local uint64_t msl_run_##name; \
  msl::declare_threadgroup_memory(&msl_run_##name, (void*)&name, sizeof name);

namespace metal {

using std::abs;
using std::ceil;
using std::cos;
using std::exp;
using std::exp2;
using std::fabs;
using std::floor;
using std::fma;
using std::fmax;
using std::fmin;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::log;
using std::log2;
using std::pow;
using std::rint;
using std::round;
using std::sin;
using std::sqrt;
using std::tanh;
using std::trunc;
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
#define MSL_MIN_MAX(T)                             \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
MSL_MIN_MAX(float)
MSL_MIN_MAX(int)
MSL_MIN_MAX(unsigned)
MSL_MIN_MAX(long)
MSL_MIN_MAX(unsigned long)
MSL_MIN_MAX(short)
MSL_MIN_MAX(unsigned short)
MSL_MIN_MAX(half_t)
MSL_MIN_MAX(bfloat_t)
#undef MSL_MIN_MAX
namespace precise {
using metal::cos;
using metal::exp;
using metal::log;
using metal::pow;
using metal::rsqrt;
using metal::sin;
using metal::sqrt;
using metal::tanh;
}  // namespace precise
namespace fast {
using namespace precise;
}
inline unsigned popcount(unsigned x) { return (unsigned)__builtin_popcount(x); }
inline unsigned clz(unsigned x) { return x ? (unsigned)__builtin_clz(x) : 32; }
inline unsigned ctz(unsigned x) { return x ? (unsigned)__builtin_ctz(x) : 32; }

// The place of the call, for messages.
#define MSL_WHERE msl::Where where = {__builtin_FILE(), __builtin_LINE()}

inline void threadgroup_barrier(mem_flags, MSL_WHERE) { msl::barrier(where); }
inline void simdgroup_barrier(mem_flags, MSL_WHERE) { msl::exchange(0, "simdgroup_barrier", where); }

template <class T>
inline uint64_t msl_pack(T value) {
  static_assert(sizeof(T) <= 8, "SIMD operations move 64 bits at most");
  uint64_t bits = 0;
  memcpy(&bits, (const void*)&value, sizeof value);
  return bits;
}
template <class T>
inline T msl_unpack(uint64_t bits) {
  T value;
  memcpy((void*)&value, &bits, sizeof value);
  return value;
}

// Pairs at distance 16, 8, 4, 2, 1: the order of a reduction by shuffles.
template <class T, class F>
inline T msl_reduce(T value, F f, const char* what, msl::Where where) {
  msl::Exchange& all = msl::exchange(msl_pack(value), what, where);
  if (!all.reduced) {
    T x[32];
    for (int i = 0; i < 32; i++) x[i] = msl_unpack<T>(all.values[i]);
    for (int distance = 16; distance; distance /= 2)
      for (int i = 0; i < distance; i++) x[i] = f(x[i], x[i + distance]);
    all.result = msl_pack(x[0]);
    all.reduced = true;
  }
  return msl_unpack<T>(all.result);
}
#define MSL_REDUCTION(name, expression)                                             \
  template <class T>                                                                \
  T name(T value, MSL_WHERE) {                                                      \
    return msl_reduce(value, [](T a, T b) { return T(expression); }, #name, where); \
  }
MSL_REDUCTION(simd_sum, a + b)
MSL_REDUCTION(simd_product, a* b)
MSL_REDUCTION(simd_max, a < b ? b : a)
MSL_REDUCTION(simd_min, b < a ? b : a)
MSL_REDUCTION(simd_and, a& b)
MSL_REDUCTION(simd_or, a | b)
#undef MSL_REDUCTION
inline bool simd_any(bool value, MSL_WHERE) {
  return msl_reduce(int(value), [](int a, int b) { return a | b; }, "simd_any", where);
}
inline bool simd_all(bool value, MSL_WHERE) {
  return msl_reduce(int(value), [](int a, int b) { return a & b; }, "simd_all", where);
}

inline int msl_lane() { return int(msl::current().thread % 32); }
template <class T>
T msl_from(T value, int lane, const char* what, msl::Where where) {
  const msl::Exchange& all = msl::exchange(msl_pack(value), what, where);
  if (lane < 0 || lane > 31) return value;  // undefined in MSL; CUDA gives the lane its own value
  return msl_unpack<T>(all.values[lane]);
}
template <class T>
T simd_shuffle(T value, ushort lane, MSL_WHERE) {
  return msl_from(value, lane, "simd_shuffle", where);
}
template <class T>
T simd_broadcast(T value, ushort lane, MSL_WHERE) {
  return msl_from(value, lane, "simd_broadcast", where);
}
template <class T>
T simd_broadcast_first(T value, MSL_WHERE) {
  return msl_from(value, 0, "simd_broadcast_first", where);
}
template <class T>
T simd_shuffle_xor(T value, ushort mask, MSL_WHERE) {
  return msl_from(value, msl_lane() ^ mask, "simd_shuffle_xor", where);
}
template <class T>
T simd_shuffle_down(T value, ushort delta, MSL_WHERE) {
  return msl_from(value, msl_lane() + delta, "simd_shuffle_down", where);
}
template <class T>
T simd_shuffle_up(T value, ushort delta, MSL_WHERE) {
  return msl_from(value, msl_lane() - delta, "simd_shuffle_up", where);
}
template <class T>
T simd_prefix_exclusive_sum(T value, MSL_WHERE) {
  const msl::Exchange& all = msl::exchange(msl_pack(value), "simd_prefix_exclusive_sum", where);
  T sum = T(0);
  for (int i = 0, lane = msl_lane(); i < lane; i++) sum = T(sum + msl_unpack<T>(all.values[i]));
  return sum;
}
template <class T>
T simd_prefix_inclusive_sum(T value, MSL_WHERE) {
  const msl::Exchange& all = msl::exchange(msl_pack(value), "simd_prefix_inclusive_sum", where);
  T sum = T(0);
  for (int i = 0, lane = msl_lane(); i <= lane; i++) sum = T(sum + msl_unpack<T>(all.values[i]));
  return sum;
}

// Threadgroups may run on several OS threads.
template <class T, class U>
T atomic_fetch_add_explicit(atomic<T>* object, U operand, memory_order) {
  T old, wanted;
  __atomic_load(&object->value, &old, __ATOMIC_RELAXED);
  do {
    wanted = T(old + operand);
  } while (!__atomic_compare_exchange(&object->value, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
template <class T>
T atomic_load_explicit(const atomic<T>* object, memory_order) {
  T value;
  __atomic_load(&object->value, &value, __ATOMIC_RELAXED);
  return value;
}
template <class T, class U>
void atomic_store_explicit(atomic<T>* object, U desired, memory_order) {
  T value = T(desired);
  __atomic_store(&object->value, &value, __ATOMIC_RELAXED);
}

}  // namespace metal

#include "msl_matrix.h"

namespace metal {

// Two exchanges: the rows of a, then the columns of b.
template <class D, class A, class B, class C>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                   const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<C, 8, 8>& c, MSL_WHERE) {
  typedef simdgroup_float8x8 M;
  struct Pair {
    float held[2];
  };
  const int row = M::row_of(msl_lane()), column = M::column_of(msl_lane());
  const char* what = "simdgroup_multiply_accumulate";
  float a_row[8];
  {
    const msl::Exchange& all = msl::exchange(msl_pack(Pair{{float(a.held[0]), float(a.held[1])}}), what, where);
    for (int k = 0; k < 8; k++) a_row[k] = msl_unpack<Pair>(all.values[M::holder(row, k)]).held[k & 1];
  }
  float sum[2] = {float(c.held[0]), float(c.held[1])};
  const msl::Exchange& all = msl::exchange(msl_pack(Pair{{float(b.held[0]), float(b.held[1])}}), what, where);
  for (int k = 0; k < 8; k++) {
    const Pair b_pair = msl_unpack<Pair>(all.values[M::holder(k, column)]);
    sum[0] += a_row[k] * b_pair.held[0];
    sum[1] += a_row[k] * b_pair.held[1];
  }
  d.held[0] = D(sum[0]);
  d.held[1] = D(sum[1]);
}

}  // namespace metal

#undef INFINITY
#define INFINITY __builtin_inff()
#undef NAN
#define NAN __builtin_nanf("")

#include "msl_names.h"
