#include "backend/gpu/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "backend/gpu/cuda/driver.h"
#include "backend/gpu/cuda/kernel_cache.h"
#include "backend/gpu/cuda/nvrtc.h"
#include "backend/gpu/embedded.h"
#include "base/error.h"

namespace swiftlet::gpu {
namespace {

using namespace cuda;

// The one parameter of each kernel (tools/msl/include/msl_cuda.h).
struct KernelArgs {
  DevicePointer buffers[16];
  alignas(16) std::byte arguments[256];
};

// What the driver keeps of a card's memory for a process: the rest of what is in use is somebody else's.
constexpr uint64_t kMostOverhead = uint64_t(640) << 20;

struct CudaContext {
  int device = 0;
  Handle context = nullptr;
  Handle stream = nullptr;     // of dispatches
  Handle downloads = nullptr;  // of experts that leave the card, beside the other copies: a bus carries both ways
  Handle transfers = nullptr;  // of copies, which the caller has ordered after the dispatches; from any thread

  CudaContext() {
    check(driver().cuInit(0), "cuInit");
    check(driver().cuDeviceGet(&device, 0), "no card");
    check(driver().cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    use();
    check(driver().cuStreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate");
    check(driver().cuStreamCreate(&transfers, kStreamNonBlocking), "cuStreamCreate");
    check(driver().cuStreamCreate(&downloads, kStreamNonBlocking), "cuStreamCreate");
  }
  ~CudaContext() {
    driver().cuCtxSetCurrent(context);
    if (stream) driver().cuStreamDestroy(stream);
    if (transfers) driver().cuStreamDestroy(transfers);
    if (downloads) driver().cuStreamDestroy(downloads);
    driver().cuDevicePrimaryCtxRelease(device);
  }
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // The driver keeps a current context for each thread.
  void use() const { check(driver().cuCtxSetCurrent(context), "cuCtxSetCurrent"); }
  void finish_transfers() const { check(driver().cuStreamSynchronize(transfers), "a copy"); }
};

struct CudaMemory : Memory {
  std::shared_ptr<const CudaContext> context;
  size_t size = 0;
  void* pinned = nullptr;
  DevicePointer pointer = 0;

  ~CudaMemory() override {
    driver().cuCtxSetCurrent(context->context);
    if (pinned)
      driver().cuMemFreeHost(pinned);
    else if (pointer)
      driver().cuMemFree(pointer);
  }
  size_t bytes() const override { return size; }
  std::byte* host() const override { return static_cast<std::byte*>(pinned); }
  uint64_t address() const override { return pointer; }
};

struct Module {
  std::shared_ptr<const CudaContext> context;
  Handle module = nullptr;
  Handle function = nullptr;
  int max_threads = 0;  // of a threadgroup, by the registers that it takes

  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() {
    if (!module) return;
    driver().cuCtxSetCurrent(context->context);
    driver().cuModuleUnload(module);
  }
};

struct CudaPipeline : Pipeline {
  std::string file, name;
  std::vector<Constant> constants;
  std::unique_ptr<Module> module;
  // For threadgroups larger than the registers of the first form allow: compiled when one comes.
  mutable std::unique_ptr<Module> large;
};

std::string_view cuda_text(std::string_view file) {
  for (const EmbeddedText& text : cuda_texts())
    if (text.name == file) return text.text;
  fail(ErrorKind::Input, "there is no shader ", file, ".metal");
}

class CudaDevice : public Device {
 public:
  CudaDevice() : context_(std::make_shared<const CudaContext>()) {
    char name[256] = {};
    check(driver().cuDeviceGetName(name, int(sizeof name) - 1, context_->device), "cuDeviceGetName");
    name_ = name;
    int major = 0, minor = 0;
    check(driver().cuDeviceGetAttribute(&major, kComputeCapabilityMajor, context_->device), "cuDeviceGetAttribute");
    check(driver().cuDeviceGetAttribute(&minor, kComputeCapabilityMinor, context_->device), "cuDeviceGetAttribute");
    architecture_ = "sm_" + std::to_string(major) + std::to_string(minor);
    nvrtc_version();  // that it is missing should be said now
    const auto [free, total] = memory_info();
    overhead_ = std::min<uint64_t>(total - free, kMostOverhead);
  }

  ~CudaDevice() override {
    driver().cuCtxSetCurrent(context_->context);
    driver().cuStreamSynchronize(context_->stream);
    for (const Ticket& ticket : tickets_) driver().cuEventDestroy(ticket.event);
    for (Handle event : free_events_) driver().cuEventDestroy(event);
  }

  std::string description() const override { return "cuda (" + name_ + ")"; }
  // The shaders' simdgroup_matrix is made of shuffles here.
  bool matrix_units() const override { return false; }

  std::optional<OwnMemory> own_memory() const override {
    context_->use();
    return OwnMemory{overhead_, memory_info().free};
  }

  std::unique_ptr<Memory> allocate(size_t bytes, Placement placement) override {
    context_->use();
    auto memory = make_memory(bytes, placement);
    if (memory->pinned) {
      std::memset(memory->pinned, 0, bytes);
    } else {
      check(driver().cuMemsetD8Async(memory->pointer, 0, bytes, context_->transfers), "cuMemsetD8Async");
      context_->finish_transfers();
    }
    return memory;
  }

  std::unique_ptr<Memory> wrap(const std::byte* base, size_t bytes) override {
    context_->use();
    auto memory = make_memory(bytes, Placement::Private);
    check(driver().cuMemcpyHtoDAsync(memory->pointer, base, bytes, context_->transfers), "cuMemcpyHtoDAsync");
    context_->finish_transfers();
    return memory;
  }

  void read(const Memory& from, uint64_t offset, void* to, size_t bytes) override {
    context_->use();
    check_range(from, offset, bytes);
    check(driver().cuMemcpyDtoHAsync(to, from.address() + offset, bytes, context_->transfers), "cuMemcpyDtoHAsync");
    context_->finish_transfers();
  }
  void write(Memory& to, uint64_t offset, const void* from, size_t bytes) override {
    context_->use();
    check_range(to, offset, bytes);
    check(driver().cuMemcpyHtoDAsync(to.address() + offset, from, bytes, context_->transfers), "cuMemcpyHtoDAsync");
    context_->finish_transfers();
  }
  void clear(Memory& memory) override {
    context_->use();
    check(driver().cuMemsetD8Async(memory.address(), 0, memory.bytes(), context_->transfers), "cuMemsetD8Async");
    context_->finish_transfers();
  }

  std::shared_ptr<std::byte> staging(size_t bytes) override {
    context_->use();
    std::shared_ptr<CudaMemory> memory = make_memory(bytes, Placement::Shared);
    std::byte* const host = memory->host();
    return {std::move(memory), host};
  }
  void upload(const Memory& to, uint64_t offset, const std::byte* from, size_t bytes) override {
    context_->use();
    check_range(to, offset, bytes);
    check(driver().cuMemcpyHtoDAsync(to.address() + offset, from, bytes, context_->transfers), "cuMemcpyHtoDAsync");
    context_->finish_transfers();
  }
  void download(const Memory& from, uint64_t offset, std::byte* to, size_t bytes) override {
    context_->use();
    check_range(from, offset, bytes);
    check(driver().cuMemcpyDtoHAsync(to, from.address() + offset, bytes, context_->downloads), "cuMemcpyDtoHAsync");
    check(driver().cuStreamSynchronize(context_->downloads), "a copy");
  }
  void copy(const Memory& to, uint64_t to_offset, const Memory& from, uint64_t from_offset, size_t bytes) override {
    context_->use();
    check_range(to, to_offset, bytes);
    check_range(from, from_offset, bytes);
    check(
        driver().cuMemcpyDtoDAsync(to.address() + to_offset, from.address() + from_offset, bytes, context_->transfers),
        "cuMemcpyDtoDAsync");
    context_->finish_transfers();
  }

  const Pipeline& pipeline(const Kernel& kernel, std::span<const Constant> constants) override {
    std::string key = kernel.file;  // its bytes: this runs for every dispatch
    key.append(1, '.').append(kernel.name).append(1, '\0');
    key.append(reinterpret_cast<const char*>(constants.data()), constants.size_bytes());
    std::unique_ptr<CudaPipeline>& result = pipelines_[key];
    if (!result) {
      auto pipeline = std::make_unique<CudaPipeline>();
      pipeline->file = kernel.file;
      pipeline->name = kernel.name;
      pipeline->constants.assign(constants.begin(), constants.end());
      pipeline->module = make_module(*pipeline, 0);
      result = std::move(pipeline);
    }
    return *result;
  }

  void dispatch(const Pipeline& pipeline, std::span<const Binding> buffers, const void* arguments,
                size_t argument_bytes, Grid groups, uint32_t threads) override {
    const auto& p = static_cast<const CudaPipeline&>(pipeline);
    KernelArgs args{};
    if (buffers.size() > std::size(args.buffers) || argument_bytes > sizeof args.arguments)
      fail(ErrorKind::Input, p.file, ".metal: kernel ", p.name, ": too many buffers or bytes of arguments");
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (!buffers[i].memory)
        fail(ErrorKind::Input, p.file, ".metal: kernel ", p.name, ": buffer ", i, ": no memory is bound");
      args.buffers[i] = buffers[i].memory->address() + buffers[i].offset;
    }
    if (argument_bytes > 0) std::memcpy(args.arguments, arguments, argument_bytes);
    void* parameters[] = {&args};
    context_->use();
    check(driver().cuLaunchKernel(function_for(p, threads), groups.x, groups.y, groups.z, threads, 1, 1, 0,
                                  context_->stream, parameters, nullptr),
          p.name.c_str());
    queued_ = true;
    ++counters_.dispatches;
  }

  // There is one stream: a dispatch begins when the one before it has ended.
  void barrier() override {}
  // Kernels can reach all memory.
  void use(const Memory&) override {}

  uint64_t commit() override {
    if (!queued_) return next_ticket_ - 1;
    queued_ = false;
    context_->use();
    Handle event = nullptr;
    if (free_events_.empty()) {
      check(driver().cuEventCreate(&event, kEventDisableTiming), "cuEventCreate");
    } else {
      event = free_events_.back();
      free_events_.pop_back();
    }
    tickets_.push_back({next_ticket_, event});
    check(driver().cuEventRecord(event, context_->stream), "cuEventRecord");
    ++counters_.commits;
    return next_ticket_++;
  }

  void wait(uint64_t ticket) override {
    if (ticket >= next_ticket_) fail(ErrorKind::Input, "wait: ticket ", ticket, " was not given yet");
    const auto last =
        std::find_if(tickets_.begin(), tickets_.end(), [&](const Ticket& t) { return t.number == ticket; });
    if (last == tickets_.end()) return;
    context_->use();
    ++counters_.waits;
    check(driver().cuEventSynchronize(last->event), "a kernel");
    for (auto t = tickets_.begin(); t != last + 1; ++t) free_events_.push_back(t->event);
    tickets_.erase(tickets_.begin(), last + 1);
  }

  Counters counters() const override { return counters_; }

 private:
  struct Ticket {
    uint64_t number;
    Handle event;
  };

  struct MemoryInfo {
    size_t free, total;
  };
  static MemoryInfo memory_info() {
    MemoryInfo info{};
    check(driver().cuMemGetInfo(&info.free, &info.total), "cuMemGetInfo");
    return info;
  }

  std::unique_ptr<CudaMemory> make_memory(size_t bytes, Placement placement) {
    auto memory = std::make_unique<CudaMemory>();
    memory->context = context_;
    memory->size = bytes;
    const size_t at_least_one = std::max<size_t>(bytes, 1);
    if (placement == Placement::Shared) {
      const int result =
          driver().cuMemHostAlloc(&memory->pinned, at_least_one, kHostAllocPortable | kHostAllocDeviceMap);
      if (result == kOutOfMemory) fail(ErrorKind::Memory, "no memory for ", bytes, " bytes that CPU and GPU share");
      check(result, "cuMemHostAlloc");
      check(driver().cuMemHostGetDevicePointer(&memory->pointer, memory->pinned, 0), "cuMemHostGetDevicePointer");
      return memory;
    }
    const int result = driver().cuMemAlloc(&memory->pointer, at_least_one);
    if (result == kOutOfMemory) {
      size_t free = 0, total = 0;
      driver().cuMemGetInfo(&free, &total);
      fail(ErrorKind::Memory, "the GPU has no room for ", bytes, " bytes: ", free, " of ", total, " are free");
    }
    check(result, "cuMemAlloc");
    return memory;
  }

  static void check_range(const Memory& memory, uint64_t offset, size_t bytes) {
    if (offset > memory.bytes() || bytes > memory.bytes() - offset)
      fail(ErrorKind::Input, bytes, " bytes at ", offset, " are not in a memory of ", memory.bytes(), " bytes");
  }

  Handle function_for(const CudaPipeline& pipeline, uint32_t threads) {
    if (int(threads) <= pipeline.module->max_threads) return pipeline.module->function;
    if (!pipeline.large) pipeline.large = make_module(pipeline, 1024);
    return pipeline.large->function;
  }

  // `threads`: of the largest threadgroup, 0 to let the compiler take the registers that it likes.
  std::unique_ptr<Module> make_module(const CudaPipeline& pipeline, int threads) {
    const std::string source = std::string(cuda_text("prelude")) + std::string(cuda_text(pipeline.file));
    // No contraction, as everywhere: kernels say fma where they mean it.
    std::vector<std::string> options = {"-arch=" + architecture_, "-std=c++17", "-default-device", "-fmad=false",
                                        "-DMSL_ENTRY_" + pipeline.name};
    for (const Constant& constant : pipeline.constants)
      options.push_back("-DMSL_CONSTANT_" + std::to_string(constant.index) + "=" + std::to_string(constant.value) +
                        "u");
    if (threads > 0) options.push_back("-DMSL_THREADS=" + std::to_string(threads));
    std::string key = "NVRTC " + nvrtc_version() + "\n";
    for (const std::string& option : options) key += option + "\n";
    key += source;

    context_->use();
    auto module = std::make_unique<Module>();
    module->context = context_;
    const std::optional<std::string> kept = load_kernel(key);
    if (!kept || driver().cuModuleLoadData(&module->module, kept->data()) != kSuccess) {
      const std::string code = compile(source, pipeline.file + ".metal", options);
      check(driver().cuModuleLoadData(&module->module, code.data()), "cuModuleLoadData");
      store_kernel(key, code);
    }
    const std::string entry = "msl_entry_" + pipeline.name;
    if (driver().cuModuleGetFunction(&module->function, module->module, entry.c_str()) != kSuccess)
      fail(ErrorKind::Input, pipeline.file, ".metal has no kernel ", pipeline.name);
    check(driver().cuFuncGetAttribute(&module->max_threads, kMaxThreadsPerBlock, module->function),
          "cuFuncGetAttribute");
    return module;
  }

  std::shared_ptr<const CudaContext> context_;
  std::string name_;
  uint64_t overhead_ = 0;
  std::string architecture_;  // "sm_90"
  std::map<std::string, std::unique_ptr<CudaPipeline>> pipelines_;
  bool queued_ = false;  // since the last commit
  uint64_t next_ticket_ = 1;
  std::deque<Ticket> tickets_;  // not waited for
  std::vector<Handle> free_events_;
  Counters counters_;
};

}  // namespace

bool cuda_available() {
  try {
    int count = 0;
    if (driver().cuInit(0) != kSuccess || driver().cuDeviceGetCount(&count) != kSuccess || count == 0) return false;
    nvrtc_version();
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<Device> make_cuda_device() { return std::make_unique<CudaDevice>(); }

}  // namespace swiftlet::gpu
