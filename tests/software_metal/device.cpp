#include "device.h"

#include <unistd.h>

#include <cstring>

#include "foundation.h"

namespace software_metal {
namespace {

// What an M1 has.
constexpr size_t kMostBufferBytes = size_t(1) << 36;
constexpr long kNewestAppleFamily = 1007;
constexpr long kMetal3 = 5001;

// MTLResourceStorageModeShared, with nothing else set.
constexpr size_t kShared = 0;

struct Device : Object {
  Device() : Object("MTLDevice") { immortal = true; }
};

struct Options : Object {
  Options() : Object("MTLCompileOptions") {}
};

struct ConstantValues : Object {
  ConstantValues() : Object("MTLFunctionConstantValues") {}
  Constants values;
};

struct Library : Object {
  explicit Library(std::shared_ptr<ShaderLibrary> compiled) : Object("MTLLibrary"), shaders(std::move(compiled)) {}
  void dispose() override { shaders.reset(); }
  std::shared_ptr<ShaderLibrary> shaders;
};

struct Function : Object {
  Function(std::shared_ptr<CompiledKernel> compiled, std::string function)
      : Object("MTLFunction"), kernel(std::move(compiled)), name(std::move(function)) {}
  void dispose() override { kernel.reset(); }
  std::shared_ptr<CompiledKernel> kernel;
  std::string name;
};

// Null where Metal returns nil.
Buffer* new_buffer(size_t bytes, size_t options) {
  if (options != kShared) report("newBuffer: only storage mode Shared is supported, options are not 0");
  if (bytes == 0 || bytes > kMostBufferBytes) return nullptr;
  return new Buffer(std::make_unique<GpuMemory>(bytes), bytes);
}

Buffer* new_buffer_over(void* pages, size_t bytes, size_t options) {
  if (options != kShared) report("newBufferWithBytesNoCopy: only storage mode Shared is supported");
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  if (reinterpret_cast<uintptr_t>(pages) % page || bytes % page || bytes == 0) {
    report("newBufferWithBytesNoCopy: not whole pages");
    return nullptr;
  }
  return new Buffer(std::make_unique<GpuMemory>(pages, bytes), bytes);
}

Function* new_function(const Library& library, const std::string& name, const Constants& constants, Object** error) {
  std::string why = "no function named " + name;
  std::shared_ptr<CompiledKernel> kernel;
  if (library.shaders->has(name)) kernel = library.shaders->kernel(name, constants, why);
  if (kernel) return new Function(kernel, name);
  set_error(error, why);
  return nullptr;
}

void define_options() {
  define_class("MTLCompileOptions", []() -> Object* { return new Options; });
  define("MTLCompileOptions", "setLanguageVersion:", [](Object*, Selector, size_t version) {
    constexpr size_t kMetal3_1 = 0x30001;
    if (version != kMetal3_1) report("setLanguageVersion: shaders are emulated as Metal 3.1");
  });
  define("MTLCompileOptions", "setFastMathEnabled:", [](Object*, Selector, bool enabled) {
    if (enabled) report("setFastMathEnabled: the emulation knows precise mathematics only");
  });
  define_class("MTLFunctionConstantValues", []() -> Object* { return new ConstantValues; });
  define("MTLFunctionConstantValues", "setConstantValue:type:atIndex:",
         [](ConstantValues* self, Selector, const void* value, size_t type, size_t index) {
           ConstantValue kept{type, 0};
           if (type == kUIntType) std::memcpy(&kept.value, value, sizeof kept.value);
           self->values[index] = kept;
         });
}

}  // namespace

void define_device() {
  define_options();

  constexpr auto kDevice = "MTLDevice";
  define(kDevice, "name", [](Object*, Selector) -> Object* { return autorelease(new String("software")); });
  define(kDevice, "supportsFamily:", [](Object*, Selector, long family) -> bool {
    return family <= kNewestAppleFamily || family == kMetal3;
  });
  define(kDevice, "maxBufferLength", [](Object*, Selector) -> size_t { return kMostBufferBytes; });
  define(kDevice, "newCommandQueueWithMaxCommandBufferCount:", [](Object*, Selector, size_t most) -> Object* {
    return make_queue(most);
  });
  define(kDevice, "newBufferWithLength:options:", [](Object*, Selector, size_t bytes, size_t options) -> Object* {
    return new_buffer(bytes, options);
  });
  define(kDevice, "newBufferWithBytesNoCopy:length:options:deallocator:",
         [](Object*, Selector, void* pages, size_t bytes, size_t options, void* deallocator) -> Object* {
           if (deallocator) report("newBufferWithBytesNoCopy: deallocators are not supported");
           return new_buffer_over(pages, bytes, options);
         });
  define(kDevice, "newLibraryWithSource:options:error:",
         [](Object*, Selector, String* source, Object*, Object** error) -> Object* {
           std::string why;
           if (auto shaders = compile_shaders(source->text, why)) return new Library(shaders);
           set_error(error, why);
           return nullptr;
         });
  define(kDevice,
         "newComputePipelineStateWithFunction:error:", [](Object*, Selector, Function* function, Object**) -> Object* {
           return new Pipeline(function->kernel, function->name);
         });

  define("MTLLibrary", "newFunctionWithName:constantValues:error:",
         [](Library* self, Selector, String* name, ConstantValues* constants, Object** error) -> Object* {
           return new_function(*self, name->text, constants->values, error);
         });
  define("MTLComputePipelineState", "threadExecutionWidth", [](Object*, Selector) -> size_t { return 32; });
  define("MTLComputePipelineState", "maxTotalThreadsPerThreadgroup", [](Object*, Selector) -> size_t { return 1024; });
  define("MTLBuffer", "contents", [](Buffer* self, Selector) -> void* { return self->memory->host(); });
  define("MTLBuffer", "length", [](Buffer* self, Selector) -> size_t { return self->bytes; });
  define("MTLBuffer", "gpuAddress",
         [](Buffer* self, Selector) -> uint64_t { return reinterpret_cast<uint64_t>(self->memory->gpu()); });
}

// metal-cpp's MTL::CreateSystemDefaultDevice().
extern "C" Object* MTLCreateSystemDefaultDevice() {
  static auto* device = new Device;
  return device;
}

}  // namespace software_metal
