// A CUDA driver and NVRTC in software, as far as cuda_device uses them: memory is the host's, kernels are those of the
// emulated device. What is queued on a stream runs when something waits for the stream or an event, not before.
// A program is "compiled" to a line of text: its file, kernel and function constants.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "backend/gpu/emulated/kernel.h"
#include "backend/gpu/emulated/threadgroup.h"

using namespace swiftlet::gpu::emulated;

namespace {

enum : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNoContext = 201,
  kInvalidImage = 200,
  kNotFound = 500,
  kFault = 700
};
constexpr size_t kTotalMemory = size_t(1) << 30;
constexpr const char* kMagic = "fake cubin";

std::mutex streams;     // their queues; experts are uploaded by several threads
int sticky = kSuccess;  // a fault stays, as with the real driver
thread_local void* current_context = nullptr;

struct Stream {
  std::deque<std::function<void()>> queue;
  uint64_t queued = 0, done = 0;

  void push(std::function<void()> work) {
    const std::lock_guard lock(streams);
    queue.push_back(std::move(work));
    ++queued;
  }
  uint64_t count() const {
    const std::lock_guard lock(streams);
    return queued;
  }
  void run_until(uint64_t count) {
    const std::lock_guard lock(streams);
    for (; done < count; ++done) {
      if (sticky == kSuccess) queue.front()();
      queue.pop_front();
    }
  }
};

struct Event {
  Stream* stream = nullptr;
  uint64_t count = 0;
};

struct Module {
  const Library* library;
  std::string kernel;
  std::vector<std::pair<uint32_t, uint32_t>> constants;
  const KernelInfo* info;
};

struct Program {
  std::string file, code, log;
};

struct LaunchArgs {
  void* buffers[16];
  alignas(16) unsigned char arguments[256];
};

void run_kernel(const Module& module, const LaunchArgs& launch, Uint3 groups, uint32_t threads) {
  for (FunctionConstant* constant : module.library->constants) {
    constant->set = false;
    for (const auto& [index, value] : module.constants)
      if (index == constant->index) *constant = {constant->name, index, value, true};
  }
  Args args{};
  std::copy(std::begin(launch.buffers), std::end(launch.buffers), args.buffers);
  args.arguments = launch.arguments;
  const GroupRun run{module.info, &args, groups, threads, false};
  try {
    const FaultHandler handler;
    for (uint32_t z = 0; z < groups.z; ++z)
      for (uint32_t y = 0; y < groups.y; ++y)
        for (uint32_t x = 0; x < groups.x; ++x) run_threadgroup(run, {x, y, z});
  } catch (const AccessFault& fault) {
    std::fprintf(stderr, "fake CUDA: %s: access to %p\n", fault.kernel.c_str(), reinterpret_cast<void*>(fault.address));
    sticky = kFault;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fake CUDA: %s\n", error.what());
    sticky = kFault;
  }
}

int need_context() { return !current_context ? int(kNoContext) : sticky; }

}  // namespace

extern "C" {

int cuInit(unsigned) { return kSuccess; }
int cuGetErrorName(int result, const char** name) {
  *name = result == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == kFault     ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                 : "CUDA_ERROR";
  return kSuccess;
}
int cuGetErrorString(int, const char** text) {
  *text = "fake";
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 0;
  return ordinal == 0 ? kSuccess : 101;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}
int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, size_t(length), "fake");
  return kSuccess;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : 0;
  return attribute == 75 || attribute == 76 ? kSuccess : kInvalidValue;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  static int primary;
  *context = &primary;
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
int cuCtxSetCurrent(void* context) {
  current_context = context;
  return kSuccess;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = *total = kTotalMemory;
  return kSuccess;
}

// Memory begins as garbage, so that what is not cleared shows.
int cuMemAlloc_v2(unsigned long long* memory, size_t bytes) {
  if (int error = need_context()) return error;
  if (bytes == 0) return kInvalidValue;
  if (bytes > kTotalMemory) return kOutOfMemory;
  void* p = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(p, 0xff, bytes);
  *memory = reinterpret_cast<unsigned long long>(p);
  return kSuccess;
}
int cuMemFree_v2(unsigned long long memory) {
  std::free(reinterpret_cast<void*>(memory));
  return need_context();
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  if (flags != 3) return kInvalidValue;  // portable and mapped
  unsigned long long p = 0;
  const int error = cuMemAlloc_v2(&p, bytes);
  *memory = reinterpret_cast<void*>(p);
  return error;
}
int cuMemFreeHost(void* memory) {
  std::free(memory);
  return need_context();
}
int cuMemHostGetDevicePointer_v2(unsigned long long* device, void* host, unsigned) {
  *device = reinterpret_cast<unsigned long long>(host);
  return kSuccess;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void* stream) {
  static_cast<Stream*>(stream)->push([=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  return need_context();
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void* stream) {
  static_cast<Stream*>(stream)->push(
      [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  return need_context();
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void* stream) {
  static_cast<Stream*>(stream)->push([=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
  return need_context();
}
int cuMemsetD8Async(unsigned long long memory, unsigned char value, size_t bytes, void* stream) {
  static_cast<Stream*>(stream)->push([=] { std::memset(reinterpret_cast<void*>(memory), value, bytes); });
  return need_context();
}

int cuStreamCreate(void** stream, unsigned flags) {
  *stream = new Stream;
  return flags == 1 ? need_context() : int(kInvalidValue);  // not ordered after the default stream
}
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return kSuccess;
}
int cuStreamSynchronize(void* stream) {
  auto* s = static_cast<Stream*>(stream);
  s->run_until(s->count());
  return need_context();
}
int cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return need_context();
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return kSuccess;
}
int cuEventRecord(void* event, void* stream) {
  auto* s = static_cast<Stream*>(stream);
  *static_cast<Event*>(event) = {s, s->count()};
  return need_context();
}
int cuEventSynchronize(void* event) {
  auto* e = static_cast<Event*>(event);
  e->stream->run_until(e->count);
  return need_context();
}

int cuModuleLoadData(void** module, const void* image) {
  std::istringstream code(static_cast<const char*>(image));
  std::string line, file, kernel, pair;
  if (!std::getline(code, line) || line != kMagic) return kInvalidImage;
  code >> file >> kernel;
  auto result = std::make_unique<Module>();
  result->kernel = kernel;
  for (const Library* library : libraries())
    if (file == library->file) result->library = library;
  while (code >> pair) result->constants.emplace_back(std::stoul(pair), std::stoul(pair.substr(pair.find('=') + 1)));
  *module = result.release();
  return need_context();
}
int cuModuleUnload(void* module) {
  delete static_cast<Module*>(module);
  return need_context();
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto* m = static_cast<Module*>(module);
  for (const KernelInfo& info : m->library->kernels)
    if (m->kernel == info.name && "msl_entry_" + m->kernel == name) {
      m->info = &info;
      *function = m;
      return need_context();
    }
  return kNotFound;
}
int cuFuncGetAttribute(int* value, int attribute, void*) {
  *value = 256;  // so that larger threadgroups need another compilation
  return attribute == 0 ? kSuccess : kInvalidValue;
}
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void**) {
  const auto* module = static_cast<const Module*>(function);
  if (block_x % 32 != 0 || block_y != 1 || block_z != 1 || shared_bytes != 0 || grid_y > 65535 || grid_z > 65535)
    return kInvalidValue;
  LaunchArgs args;
  std::memcpy(&args, parameters[0], sizeof args);
  static_cast<Stream*>(stream)->push([=] { run_kernel(*module, args, {grid_x, grid_y, grid_z}, block_x); });
  return need_context();
}

int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 8;
  return 0;
}
int nvrtcCreateProgram(void** program, const char* source, const char* name, int headers, const char* const*,
                       const char* const*) {
  const std::string file = name;
  *program = new Program{file.substr(0, file.find('.')), "", ""};
  return std::strstr(source, "__global__") && headers == 0 ? 0 : 1;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  auto* p = static_cast<Program*>(program);
  std::string kernel, constants, architecture;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (option.starts_with("-DMSL_ENTRY_")) kernel = option.substr(12);
    if (option.starts_with("-DMSL_CONSTANT_")) constants.append(" ").append(option.substr(15));
    if (option.starts_with("-arch=")) architecture = option.substr(6);
  }
  if (architecture != "sm_90") {
    p->log = "invalid architecture";
    return 5;
  }
  p->code = std::string(kMagic) + "\n" + p->file + " " + kernel + constants + "\n";
  return 0;
}
int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(void* program, char* log) {
  std::strcpy(log, static_cast<Program*>(program)->log.c_str());
  return 0;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->code.size() + 1;
  return 0;
}
int nvrtcGetCUBIN(void* program, char* code) {
  std::strcpy(code, static_cast<Program*>(program)->code.c_str());
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  return 0;
}

}  // extern "C"
