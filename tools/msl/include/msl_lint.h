// Type-checks a shader more strictly than the compilers that run it: clang's own address spaces and vector types, and a
// library of declarations only. Never run. What clang cannot know is in lint.py.
#pragma once

#define MSL_DEVICE __attribute__((address_space(1)))
#define MSL_CONSTANT_SPACE const __attribute__((address_space(2)))
#define MSL_THREADGROUP_SPACE __attribute__((address_space(3)))

#define MSL_KERNEL
#define MSL_CONSTANT static MSL_CONSTANT_SPACE
#define MSL_THREADGROUP static MSL_THREADGROUP_SPACE
#define MSL_THREADGROUP_INIT(name) \
  static_assert(sizeof(name) <= 32768, "threadgroup memory of a kernel: 32 KB at most");
#define MSL_FUNCTION_CONSTANT(name, index) \
  inline uint name() { return 0; }
// Metal copies structs out of any address space. Follows the brace of each struct.
#define MSL_COPIES(name)                  \
  name() = default;                       \
  name(const name&) = default;            \
  name& operator=(const name&) = default; \
  name(const MSL_DEVICE name&);           \
  name(MSL_CONSTANT_SPACE name&);         \
  name(const MSL_THREADGROUP_SPACE name&);

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long ulong;
typedef unsigned long size_t;
typedef _Float16 half;
typedef __bf16 bfloat;

namespace msl {

template <class A, class B>
struct is_same {
  static constexpr bool value = false;
};
template <class A>
struct is_same<A, A> {
  static constexpr bool value = true;
};
template <class T, class... List>
struct is_one_of {
  static constexpr bool value = false;
};
template <class T, class First, class... Rest>
struct is_one_of<T, First, Rest...> {
  static constexpr bool value = is_same<T, First>::value || is_one_of<T, Rest...>::value;
};
template <bool, class T>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  typedef T type;
};

}  // namespace msl

namespace metal {
template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));
}

#define MSL_VECTORS(T)                     \
  typedef metal::vec<T, 2> T##2;           \
  typedef metal::vec<T, 3> T##3;           \
  typedef metal::vec<T, 4> T##4;           \
  struct packed_##T##2 { T elements[2]; }; \
  struct packed_##T##3 { T elements[3]; }; \
  struct packed_##T##4 { T elements[4]; };
MSL_VECTORS(char)
MSL_VECTORS(uchar)
MSL_VECTORS(short)
MSL_VECTORS(ushort)
MSL_VECTORS(int)
MSL_VECTORS(uint)
MSL_VECTORS(long)
MSL_VECTORS(ulong)
MSL_VECTORS(float)
MSL_VECTORS(half)
MSL_VECTORS(bfloat)
#undef MSL_VECTORS

// float4(...) and the like, which C++ cannot write for these types: macros at the end of this file call these.
namespace msl {

template <class T>
struct is_scalar {
  static constexpr bool value =
      is_one_of<T, float, half, bfloat, int, uint, short, ushort, char, signed char, uchar, long, ulong, bool>::value;
};
template <class V, class T, class A>
V convert(A a, decltype(void(a.x), 0) = 0) {
  return __builtin_convertvector(a, V);
}
template <class V, class T, class A>
V convert(A a, typename enable_if<is_scalar<A>::value, int>::type = 0) {
  return V(T(a));
}
#define MSL_MAKE(T)             \
  template <class A>            \
  T##2 make_##T##2(A a) {       \
    return convert<T##2, T>(a); \
  }                             \
  template <class A>            \
  T##3 make_##T##3(A a) {       \
    return convert<T##3, T>(a); \
  }                             \
  template <class A>            \
  T##4 make_##T##4(A a) {       \
    return convert<T##4, T>(a); \
  }                             \
  T##2 make_##T##2(T, T);       \
  T##3 make_##T##3(T, T, T);    \
  T##3 make_##T##3(T##2, T);    \
  T##4 make_##T##4(T, T, T, T); \
  T##4 make_##T##4(T##2, T##2);
MSL_MAKE(char)
MSL_MAKE(uchar)
MSL_MAKE(short)
MSL_MAKE(ushort)
MSL_MAKE(int)
MSL_MAKE(uint)
MSL_MAKE(long)
MSL_MAKE(ulong)
MSL_MAKE(float)
MSL_MAKE(half)
MSL_MAKE(bfloat)
#undef MSL_MAKE

// What SIMD operations take: no integers of 64 bits, no bool.
template <class T>
struct is_simd_operand {
  static constexpr bool value = is_one_of<T, float, half, int, uint, short, ushort, char, uchar, float2, float4, half2,
                                          half4, int2, int4, uint2, uint4>::value;
};
template <class T>
using simd_operand = typename enable_if<is_simd_operand<T>::value, T>::type;

}  // namespace msl

namespace metal {

#define MSL_FLOAT_1(f) \
  float f(float);      \
  half f(half);        \
  float2 f(float2);    \
  float3 f(float3);    \
  float4 f(float4);    \
  half2 f(half2);      \
  half4 f(half4);
#define MSL_FLOAT_2(f)      \
  float f(float, float);    \
  half f(half, half);       \
  float2 f(float2, float2); \
  float3 f(float3, float3); \
  float4 f(float4, float4); \
  half4 f(half4, half4);
#define MSL_INTEGER_2(f)    \
  int f(int, int);          \
  uint f(uint, uint);       \
  short f(short, short);    \
  ushort f(ushort, ushort); \
  char f(char, char);       \
  uchar f(uchar, uchar);    \
  long f(long, long);       \
  ulong f(ulong, ulong);    \
  uint2 f(uint2, uint2);    \
  uint3 f(uint3, uint3);    \
  uint4 f(uint4, uint4);
#define MSL_MATH     \
  MSL_FLOAT_1(cos)   \
  MSL_FLOAT_1(exp)   \
  MSL_FLOAT_1(exp2)  \
  MSL_FLOAT_1(log)   \
  MSL_FLOAT_1(log2)  \
  MSL_FLOAT_1(rsqrt) \
  MSL_FLOAT_1(sin)   \
  MSL_FLOAT_1(sqrt)  \
  MSL_FLOAT_1(tanh)  \
  MSL_FLOAT_2(pow)
MSL_MATH
namespace precise {
MSL_MATH
}
namespace fast {
MSL_MATH
}
MSL_FLOAT_1(abs)
MSL_FLOAT_1(ceil)
MSL_FLOAT_1(fabs)
MSL_FLOAT_1(floor)
MSL_FLOAT_1(rint)
MSL_FLOAT_1(round)
MSL_FLOAT_1(sign)
MSL_FLOAT_1(trunc)
MSL_FLOAT_2(fmax)
MSL_FLOAT_2(fmin)
MSL_FLOAT_2(max)
MSL_FLOAT_2(min)
MSL_INTEGER_2(max)
MSL_INTEGER_2(min)
float fma(float, float, float);
half fma(half, half, half);
float4 fma(float4, float4, float4);
bool isnan(float);
bool isinf(float);
bool isfinite(float);
int abs(int);
uint popcount(uint);
uint clz(uint);
uint ctz(uint);
float dot(float2, float2);
float dot(float3, float3);
float dot(float4, float4);
template <class T>
T clamp(T, T, T);
template <class T>
T select(T, T, bool);
template <class To, class From>
To as_type(From from) {
  return __builtin_bit_cast(To, from);
}

// Not used, and not in the preludes: but Metal has them, so a shader must not define its own.
MSL_FLOAT_1(acos)
MSL_FLOAT_1(asin)
MSL_FLOAT_1(atan)
MSL_FLOAT_1(cosh)
MSL_FLOAT_1(exp10)
MSL_FLOAT_1(fract)
MSL_FLOAT_1(log10)
MSL_FLOAT_1(saturate)
MSL_FLOAT_1(sinh)
MSL_FLOAT_1(tan)
MSL_FLOAT_2(atan2)
MSL_FLOAT_2(copysign)
MSL_FLOAT_2(fdim)
MSL_FLOAT_2(fmod)
MSL_FLOAT_2(powr)
MSL_FLOAT_2(step)
MSL_INTEGER_2(absdiff)
MSL_INTEGER_2(addsat)
MSL_INTEGER_2(hadd)
MSL_INTEGER_2(mulhi)
MSL_INTEGER_2(rotate)
float mix(float, float, float);
float smoothstep(float, float, float);
float length(float4);
float distance(float4, float4);
float4 normalize(float4);
uint reverse_bits(uint);
uint extract_bits(uint, uint, uint);
uint insert_bits(uint, uint, uint, uint);

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
mem_flags operator|(mem_flags, mem_flags);
void threadgroup_barrier(mem_flags) __attribute__((convergent));
void simdgroup_barrier(mem_flags) __attribute__((convergent));

#define MSL_SIMD_1(f) \
  template <class T>  \
  msl::simd_operand<T> f(T);
#define MSL_SIMD_2(f) \
  template <class T>  \
  msl::simd_operand<T> f(T, ushort);
MSL_SIMD_1(simd_sum)
MSL_SIMD_1(simd_product)
MSL_SIMD_1(simd_max)
MSL_SIMD_1(simd_min)
MSL_SIMD_1(simd_and)
MSL_SIMD_1(simd_or)
MSL_SIMD_1(simd_prefix_exclusive_sum)
MSL_SIMD_1(simd_prefix_inclusive_sum)
MSL_SIMD_1(simd_broadcast_first)
MSL_SIMD_2(simd_broadcast)
MSL_SIMD_2(simd_shuffle)
MSL_SIMD_2(simd_shuffle_down)
MSL_SIMD_2(simd_shuffle_up)
MSL_SIMD_2(simd_shuffle_xor)
bool simd_any(bool);
bool simd_all(bool);

enum memory_order { memory_order_relaxed };
template <class T>
struct atomic {
  T value;
};
// Floats can be added in device memory only.
#define MSL_ATOMIC(space, T)                                             \
  T atomic_load_explicit(const volatile space atomic<T>*, memory_order); \
  void atomic_store_explicit(volatile space atomic<T>*, T, memory_order);
MSL_ATOMIC(MSL_DEVICE, int)
MSL_ATOMIC(MSL_DEVICE, uint)
MSL_ATOMIC(MSL_DEVICE, float)
MSL_ATOMIC(MSL_THREADGROUP_SPACE, int)
MSL_ATOMIC(MSL_THREADGROUP_SPACE, uint)
int atomic_fetch_add_explicit(volatile MSL_DEVICE atomic<int>*, int, memory_order);
uint atomic_fetch_add_explicit(volatile MSL_DEVICE atomic<uint>*, uint, memory_order);
float atomic_fetch_add_explicit(volatile MSL_DEVICE atomic<float>*, float, memory_order);
int atomic_fetch_add_explicit(volatile MSL_THREADGROUP_SPACE atomic<int>*, int, memory_order);
uint atomic_fetch_add_explicit(volatile MSL_THREADGROUP_SPACE atomic<uint>*, uint, memory_order);

template <class T, int Rows, int Columns>
struct simdgroup_matrix {
  static_assert(Rows == 8 && Columns == 8, "simdgroup matrices are 8x8");
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T);
  vec<T, 2>& thread_elements();
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
template <class T, int Rows, int Columns>
simdgroup_matrix<T, Rows, Columns> make_filled_simdgroup_matrix(T);
#define MSL_MATRIX(space)                                                                                          \
  template <class T>                                                                                               \
  void simdgroup_load(simdgroup_matrix<T, 8, 8>&, const space T*, ulong = 8, ulong2 = ulong2{0, 0}, bool = false); \
  template <class T>                                                                                               \
  void simdgroup_store(simdgroup_matrix<T, 8, 8>, space T*, ulong = 8, ulong2 = ulong2{0, 0}, bool = false);
MSL_MATRIX(MSL_DEVICE)
MSL_MATRIX(MSL_THREADGROUP_SPACE)
template <class D, class A, class B, class C>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>&, const simdgroup_matrix<A, 8, 8>&,
                                   const simdgroup_matrix<B, 8, 8>&, const simdgroup_matrix<C, 8, 8>&);

}  // namespace metal

using metal::memory_order_relaxed;
typedef metal::atomic<int> atomic_int;
typedef metal::atomic<uint> atomic_uint;
typedef metal::atomic<float> atomic_float;

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define M_PI_F 3.14159274101257324219f
#define __METAL_VERSION__ 310

#define device MSL_DEVICE
#define constant MSL_CONSTANT_SPACE
#define threadgroup MSL_THREADGROUP_SPACE
#define thread

#define char2(...) msl::make_char2(__VA_ARGS__)
#define char3(...) msl::make_char3(__VA_ARGS__)
#define char4(...) msl::make_char4(__VA_ARGS__)
#define uchar2(...) msl::make_uchar2(__VA_ARGS__)
#define uchar3(...) msl::make_uchar3(__VA_ARGS__)
#define uchar4(...) msl::make_uchar4(__VA_ARGS__)
#define short2(...) msl::make_short2(__VA_ARGS__)
#define short3(...) msl::make_short3(__VA_ARGS__)
#define short4(...) msl::make_short4(__VA_ARGS__)
#define ushort2(...) msl::make_ushort2(__VA_ARGS__)
#define ushort3(...) msl::make_ushort3(__VA_ARGS__)
#define ushort4(...) msl::make_ushort4(__VA_ARGS__)
#define int2(...) msl::make_int2(__VA_ARGS__)
#define int3(...) msl::make_int3(__VA_ARGS__)
#define int4(...) msl::make_int4(__VA_ARGS__)
#define uint2(...) msl::make_uint2(__VA_ARGS__)
#define uint3(...) msl::make_uint3(__VA_ARGS__)
#define uint4(...) msl::make_uint4(__VA_ARGS__)
#define long2(...) msl::make_long2(__VA_ARGS__)
#define long3(...) msl::make_long3(__VA_ARGS__)
#define long4(...) msl::make_long4(__VA_ARGS__)
#define ulong2(...) msl::make_ulong2(__VA_ARGS__)
#define ulong3(...) msl::make_ulong3(__VA_ARGS__)
#define ulong4(...) msl::make_ulong4(__VA_ARGS__)
#define float2(...) msl::make_float2(__VA_ARGS__)
#define float3(...) msl::make_float3(__VA_ARGS__)
#define float4(...) msl::make_float4(__VA_ARGS__)
#define half2(...) msl::make_half2(__VA_ARGS__)
#define half3(...) msl::make_half3(__VA_ARGS__)
#define half4(...) msl::make_half4(__VA_ARGS__)
#define bfloat2(...) msl::make_bfloat2(__VA_ARGS__)
#define bfloat3(...) msl::make_bfloat3(__VA_ARGS__)
#define bfloat4(...) msl::make_bfloat4(__VA_ARGS__)

// Not in Metal's C++.
#pragma clang \
    poison double goto new delete try catch throw virtual dynamic_cast typeid thread_local register asm mutable
