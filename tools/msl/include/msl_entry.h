// Fetching a kernel's arguments: their types come from the function itself. The prelude defines before it msl::Args and
// the sources: Buffer<i>, Arguments, and a class for each attribute whose value() is an msl::Uint3.
#pragma once

namespace msl {

template <class P>
struct Fetch;
template <class T>
struct Fetch<T*> {  // device T*, constant T*
  template <class Source>
  static MSL_FN T* get(const Args& a, Source source) {
    return (T*)source.pointer(a);
  }
};
template <class T>
struct Fetch<const T&> {  // constant T&
  static_assert(sizeof(T) <= 256, "the struct of arguments is larger than 256 bytes");
  template <class Source>
  static MSL_FN const T& get(const Args& a, Source source) {
    return *(const T*)source.pointer(a);
  }
};
template <>
struct Fetch<unsigned> {
  template <class Source>
  static MSL_FN unsigned get(const Args&, Source source) {
    return source.value().x;
  }
};
template <>
struct Fetch<unsigned short> {
  template <class Source>
  static MSL_FN unsigned short get(const Args&, Source source) {
    return (unsigned short)source.value().x;
  }
};
template <class T>
struct Fetch<metal::vec<T, 2>> {
  template <class Source>
  static MSL_FN metal::vec<T, 2> get(const Args&, Source source) {
    return {T(source.value().x), T(source.value().y)};
  }
};
template <class T>
struct Fetch<metal::vec<T, 3>> {
  template <class Source>
  static MSL_FN metal::vec<T, 3> get(const Args&, Source source) {
    return {T(source.value().x), T(source.value().y), T(source.value().z)};
  }
};

template <auto Function>
struct Call;
template <class... P, void (*Function)(P...)>
struct Call<Function> {
  template <class... Source>
  static MSL_FN void with(const Args& a, Source... source) {
    Function(Fetch<P>::get(a, source)...);
  }
};

}  // namespace msl
