#include "backend/gpu/cuda/driver.h"

#include <dlfcn.h>

#include "base/error.h"

namespace swiftlet::gpu::cuda {
namespace {

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) fail(ErrorKind::Input, "the CUDA driver has no ", name, ": it is too old");
}

Driver load_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(ErrorKind::Input, "no CUDA driver: ", dlerror());
  Driver d{};
  // Where the driver has several versions of a function, the one of CUDA 4 to 13 has a suffix.
#define LOAD(name) load(library, #name, d.name)
#define LOAD_V2(name) load(library, #name "_v2", d.name)
  LOAD(cuInit);
  LOAD(cuGetErrorName);
  LOAD(cuGetErrorString);
  LOAD(cuDeviceGet);
  LOAD(cuDeviceGetCount);
  LOAD(cuDeviceGetName);
  LOAD(cuDeviceGetAttribute);
  LOAD(cuDevicePrimaryCtxRetain);
  LOAD_V2(cuDevicePrimaryCtxRelease);
  LOAD(cuCtxSetCurrent);
  LOAD_V2(cuMemGetInfo);
  LOAD_V2(cuMemAlloc);
  LOAD_V2(cuMemFree);
  LOAD(cuMemHostAlloc);
  LOAD(cuMemFreeHost);
  LOAD_V2(cuMemHostGetDevicePointer);
  LOAD_V2(cuMemcpyHtoDAsync);
  LOAD_V2(cuMemcpyDtoDAsync);
  LOAD_V2(cuMemcpyDtoHAsync);
  LOAD(cuMemsetD8Async);
  LOAD(cuStreamCreate);
  LOAD_V2(cuStreamDestroy);
  LOAD(cuStreamSynchronize);
  LOAD(cuEventCreate);
  LOAD_V2(cuEventDestroy);
  LOAD(cuEventRecord);
  LOAD(cuEventSynchronize);
  LOAD(cuModuleLoadData);
  LOAD(cuModuleUnload);
  LOAD(cuModuleGetFunction);
  LOAD(cuFuncGetAttribute);
  LOAD(cuLaunchKernel);
#undef LOAD
#undef LOAD_V2
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver instance = load_driver();
  return instance;
}

void check(int result, const char* what) {
  if (result == kSuccess) return;
  const char* name = "an unknown error";
  const char* text = "";
  driver().cuGetErrorName(result, &name);
  driver().cuGetErrorString(result, &text);
  fail(result == kOutOfMemory ? ErrorKind::Memory : ErrorKind::Numeric, "the GPU failed: ", what, ": ", name, " (",
       text, ")");
}

}  // namespace swiftlet::gpu::cuda
