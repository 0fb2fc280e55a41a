// The CUDA driver, opened at run time: the entry points that cuda_device uses, under the names of the driver API
// (https://docs.nvidia.com/cuda/cuda-driver-api). Nothing of CUDA is needed to build.
#pragma once

#include <cstddef>

namespace swiftlet::gpu::cuda {

using DevicePointer = unsigned long long;
using Handle = struct Opaque*;  // context, stream, event, module, function

// CUresult
enum Result : int {
  kSuccess = 0,
  kOutOfMemory = 2,
};
// CUdevice_attribute, CUfunction_attribute
enum : int {
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxThreadsPerBlock = 0,
};
// Flags of cuMemHostAlloc, cuStreamCreate, cuEventCreate.
enum : unsigned {
  kHostAllocPortable = 1,
  kHostAllocDeviceMap = 2,
  kStreamNonBlocking = 1,
  kEventDisableTiming = 2,
};

struct Driver {
  int (*cuInit)(unsigned flags);
  int (*cuGetErrorName)(int result, const char** name);
  int (*cuGetErrorString)(int result, const char** text);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetCount)(int* count);
  int (*cuDeviceGetName)(char* name, int length, int device);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDevicePrimaryCtxRetain)(Handle* context, int device);
  int (*cuDevicePrimaryCtxRelease)(int device);
  int (*cuCtxSetCurrent)(Handle context);
  int (*cuMemGetInfo)(size_t* free, size_t* total);
  int (*cuMemAlloc)(DevicePointer* memory, size_t bytes);
  int (*cuMemFree)(DevicePointer memory);
  int (*cuMemHostAlloc)(void** memory, size_t bytes, unsigned flags);
  int (*cuMemFreeHost)(void* memory);
  int (*cuMemHostGetDevicePointer)(DevicePointer* device, void* host, unsigned flags);
  int (*cuMemcpyHtoDAsync)(DevicePointer to, const void* from, size_t bytes, Handle stream);
  int (*cuMemcpyDtoDAsync)(DevicePointer to, DevicePointer from, size_t bytes, Handle stream);
  int (*cuMemcpyDtoHAsync)(void* to, DevicePointer from, size_t bytes, Handle stream);
  int (*cuMemsetD8Async)(DevicePointer memory, unsigned char value, size_t bytes, Handle stream);
  int (*cuStreamCreate)(Handle* stream, unsigned flags);
  int (*cuStreamDestroy)(Handle stream);
  int (*cuStreamSynchronize)(Handle stream);
  int (*cuEventCreate)(Handle* event, unsigned flags);
  int (*cuEventDestroy)(Handle event);
  int (*cuEventRecord)(Handle event, Handle stream);
  int (*cuEventSynchronize)(Handle event);
  int (*cuModuleLoadData)(Handle* module, const void* image);
  int (*cuModuleUnload)(Handle module);
  int (*cuModuleGetFunction)(Handle* function, Handle module, const char* name);
  int (*cuFuncGetAttribute)(int* value, int attribute, Handle function);
  int (*cuLaunchKernel)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** parameters,
                        void** extra);
};

// Loads it once. Throws ErrorKind::Input when there is no driver.
const Driver& driver();

// Throws ErrorKind::Numeric (ErrorKind::Memory when there is too little) that says what failed and why.
void check(int result, const char* what);

}  // namespace swiftlet::gpu::cuda
