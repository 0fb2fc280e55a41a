// The part of MSL's types and library that the CPU and CUDA preludes share. Before it, the prelude defines MSL_FN (what
// goes before a function) and in namespace msl the conversions f32_to_f16, f16_to_f32, f32_to_bf16 and bits_to_f32.
#pragma once

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long ulong;

namespace metal {

template <class A, class B>
struct is_same {
  static constexpr bool value = false;
};
template <class A>
struct is_same<A, A> {
  static constexpr bool value = true;
};
template <bool Condition, class T>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  typedef T type;
};
// Keeps a parameter out of template deduction.
template <class T>
struct identity {
  typedef T type;
};

// 16-bit floats: storage and conversions that round. half op half rounds to half, as in MSL.
struct half_t {
  unsigned short bits;
  half_t() = default;
  MSL_FN half_t(float f) : bits(msl::f32_to_f16(f)) {}
  MSL_FN operator float() const { return msl::f16_to_f32(bits); }
};
struct bfloat_t {
  unsigned short bits;
  bfloat_t() = default;
  MSL_FN bfloat_t(float f) : bits(msl::f32_to_bf16(f)) {}
  MSL_FN operator float() const { return msl::bits_to_f32((unsigned)bits << 16); }
};
template <class T>
using if_16_bit = typename enable_if<is_same<T, half_t>::value || is_same<T, bfloat_t>::value, T>::type;
#define MSL_OPERATOR(op)                                  \
  template <class T>                                      \
  MSL_FN if_16_bit<T> operator op(T a, T b) {             \
    return T(float(a) op float(b));                       \
  }                                                       \
  template <class T>                                      \
  MSL_FN if_16_bit<T>& operator op## = (T & a, float b) { \
    return a = T(float(a) op b);                          \
  }
MSL_OPERATOR(+)
MSL_OPERATOR(-)
MSL_OPERATOR(*)
MSL_OPERATOR(/)
#undef MSL_OPERATOR

template <class T, int N>
struct vec;
template <class T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
  union {
    struct {
      T x, y;
    };
    T elements[2];
  };
  vec() = default;
  MSL_FN constexpr vec(T a, T b) : x(a), y(b) {}
  MSL_FN constexpr explicit vec(T a) : x(a), y(a) {}
  template <class U>
  MSL_FN explicit vec(const vec<U, 2>& o) : x(T(o.x)), y(T(o.y)) {}
  MSL_FN T& operator[](int i) { return elements[i]; }
  MSL_FN const T& operator[](int i) const { return elements[i]; }
};
template <class T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
  union {
    struct {
      T x, y, z;
    };
    T elements[3];
  };
  vec() = default;
  MSL_FN constexpr vec(T a, T b, T c) : x(a), y(b), z(c) {}
  MSL_FN constexpr vec(vec<T, 2> a, T c) : x(a.x), y(a.y), z(c) {}
  MSL_FN constexpr explicit vec(T a) : x(a), y(a), z(a) {}
  template <class U>
  MSL_FN explicit vec(const vec<U, 3>& o) : x(T(o.x)), y(T(o.y)), z(T(o.z)) {}
  MSL_FN T& operator[](int i) { return elements[i]; }
  MSL_FN const T& operator[](int i) const { return elements[i]; }
};
template <class T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
  union {
    struct {
      T x, y, z, w;
    };
    T elements[4];
  };
  vec() = default;
  MSL_FN constexpr vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  MSL_FN constexpr vec(vec<T, 2> a, vec<T, 2> b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
  MSL_FN constexpr explicit vec(T a) : x(a), y(a), z(a), w(a) {}
  template <class U>
  MSL_FN explicit vec(const vec<U, 4>& o) : x(T(o.x)), y(T(o.y)), z(T(o.z)), w(T(o.w)) {}
  MSL_FN T& operator[](int i) { return elements[i]; }
  MSL_FN const T& operator[](int i) const { return elements[i]; }
};

#define MSL_OPERATOR(op)                                                            \
  template <class T, int N>                                                         \
  MSL_FN vec<T, N> operator op(const vec<T, N>& a, const vec<T, N>& b) {            \
    vec<T, N> r;                                                                    \
    for (int i = 0; i < N; i++) r[i] = T(a[i] op b[i]);                             \
    return r;                                                                       \
  }                                                                                 \
  template <class T, int N>                                                         \
  MSL_FN vec<T, N> operator op(const vec<T, N>& a, typename identity<T>::type b) {  \
    return a op vec<T, N>(b);                                                       \
  }                                                                                 \
  template <class T, int N>                                                         \
  MSL_FN vec<T, N> operator op(typename identity<T>::type a, const vec<T, N>& b) {  \
    return vec<T, N>(a) op b;                                                       \
  }                                                                                 \
  template <class T, int N>                                                         \
  MSL_FN vec<T, N>& operator op## = (vec<T, N> & a, const vec<T, N>& b) {           \
    return a = a op b;                                                              \
  }                                                                                 \
  template <class T, int N>                                                         \
  MSL_FN vec<T, N>& operator op## = (vec<T, N> & a, typename identity<T>::type b) { \
    return a = a op b;                                                              \
  }
MSL_OPERATOR(+)
MSL_OPERATOR(-)
MSL_OPERATOR(*)
MSL_OPERATOR(/)
MSL_OPERATOR(&)
MSL_OPERATOR(|)
MSL_OPERATOR(^)
MSL_OPERATOR(<<)
MSL_OPERATOR(>>)
#undef MSL_OPERATOR
template <class T, int N>
MSL_FN vec<T, N> operator-(const vec<T, N>& a) {
  return T(0) - a;
}
template <class T, int N>
MSL_FN T dot(const vec<T, N>& a, const vec<T, N>& b) {
  T sum = a[0] * b[0];
  for (int i = 1; i < N; i++) sum += a[i] * b[i];
  return sum;
}

// packed_float4 and so on: without padding, aligned as an element.
template <class T, int N>
struct packed_vec {
  T elements[N];
  MSL_FN operator vec<T, N>() const {
    vec<T, N> r;
    for (int i = 0; i < N; i++) r[i] = elements[i];
    return r;
  }
  MSL_FN T& operator[](int i) { return elements[i]; }
  MSL_FN const T& operator[](int i) const { return elements[i]; }
};

template <class To, class From>
MSL_FN To as_type(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "as_type: the sizes differ");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
template <class T>
MSL_FN T select(T a, T b, bool condition) {
  return condition ? b : a;
}
template <class T>
MSL_FN T clamp(T x, typename identity<T>::type low, typename identity<T>::type high) {
  return x < low ? T(low) : x > high ? T(high) : x;
}
MSL_FN float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
MSL_FN constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }

enum memory_order { memory_order_relaxed };
template <class T>
struct atomic {
  T value;
};
typedef atomic<int> atomic_int;
typedef atomic<unsigned> atomic_uint;
typedef atomic<float> atomic_float;

#define MSL_VECTORS(name, T)                 \
  typedef vec<T, 2> msl_##name##2;           \
  typedef vec<T, 3> msl_##name##3;           \
  typedef vec<T, 4> msl_##name##4;           \
  typedef packed_vec<T, 2> packed_##name##2; \
  typedef packed_vec<T, 3> packed_##name##3; \
  typedef packed_vec<T, 4> packed_##name##4;
MSL_VECTORS(char, signed char)
MSL_VECTORS(uchar, unsigned char)
MSL_VECTORS(short, short)
MSL_VECTORS(ushort, unsigned short)
MSL_VECTORS(int, int)
MSL_VECTORS(uint, unsigned)
MSL_VECTORS(long, long)
MSL_VECTORS(ulong, unsigned long)
MSL_VECTORS(float, float)
MSL_VECTORS(half, half_t)
MSL_VECTORS(bfloat, bfloat_t)
#undef MSL_VECTORS

}  // namespace metal
