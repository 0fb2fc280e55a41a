// The arguments of the kernels: one struct each, as shaders and C++ both see it.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
namespace swiftlet::gpu {
using uint = uint32_t;
using ulong = uint64_t;
#endif

// norm.metal
struct NormArgs {
  uint columns;
  uint stride;  // between rows of x
  float eps;
};

#ifndef __METAL_VERSION__
}  // namespace swiftlet::gpu
#endif
