// What a shader translated to C++ (tools/msl) and the emulated device know of each other.
#pragma once

#include <cstdint>
#include <span>

namespace swiftlet::gpu::emulated {

constexpr uint32_t kMaxBuffers = 16;

struct Args {
  void* buffers[kMaxBuffers];
  const void* arguments;
};

struct BufferInfo {
  uint32_t alignment = 0;  // of the element type
  bool written = false;    // not a pointer to const
};

struct SignatureInfo {
  BufferInfo buffers[kMaxBuffers];
  uint32_t buffer_count = 0;
  uint32_t argument_bytes = 0;
};

struct KernelInfo {
  const char* name;
  const char* file;  // where it is defined, as messages name it
  int line;
  void (*run)(const Args&);         // one thread
  const char* const* buffer_names;  // one for each buffer
  SignatureInfo signature;
};

struct FunctionConstant {
  const char* name;
  uint32_t index;
  uint32_t value;
  bool set;
};

// A file of metal/.
struct Library {
  const char* file;  // without its extension
  std::span<const KernelInfo> kernels;
  std::span<FunctionConstant* const> constants;
};

// All of metal/.
std::span<const Library* const> libraries();

}  // namespace swiftlet::gpu::emulated
