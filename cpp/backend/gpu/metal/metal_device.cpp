#include "backend/gpu/metal/metal_device.h"

#include <unistd.h>

#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>

#include "backend/gpu/shaders.h"
#include "base/error.h"

namespace swiftlet::gpu {
namespace {

// Command buffers that may be on their way at once. Metal would block silently at a limit of its own; ours is below the
// queue's, so that every wait is one that we count.
constexpr size_t kInFlight = 256;
constexpr size_t kMostArgumentBytes = 256;
constexpr NS::UInteger kSimdWidth = 32;

// Objects that Metal hands out without giving them away live until the innermost pool of the thread goes. Python's and
// our own threads have none, so every function that talks to Metal opens one.
class Pool {
 public:
  Pool() : pool_(NS::TransferPtr(NS::AutoreleasePool::alloc()->init())) {}

 private:
  NS::SharedPtr<NS::AutoreleasePool> pool_;
};

NS::String* string(const std::string& text) { return NS::String::string(text.c_str(), NS::UTF8StringEncoding); }

std::string message(const NS::Error* error) {
  return error ? error->localizedDescription()->utf8String() : "Metal gave no reason";
}

class MetalMemory : public Memory {
 public:
  MetalMemory(NS::SharedPtr<MTL::Buffer> buffer, size_t bytes)
      : buffer_(std::move(buffer)),
        bytes_(bytes),
        host_(static_cast<std::byte*>(buffer_->contents())),
        address_(buffer_->gpuAddress()) {}

  ~MetalMemory() override {
    const Pool pool;
    buffer_.reset();
  }

  size_t bytes() const override { return bytes_; }
  std::byte* host() const override { return host_; }
  uint64_t address() const override { return address_; }
  MTL::Buffer* buffer() const { return buffer_.get(); }

 private:
  NS::SharedPtr<MTL::Buffer> buffer_;
  size_t bytes_;
  std::byte* host_;
  uint64_t address_;
};

const MetalMemory& of_metal(const Memory& memory) { return static_cast<const MetalMemory&>(memory); }

struct MetalPipeline : Pipeline {
  NS::SharedPtr<MTL::ComputePipelineState> state;
  std::string name;  // "norm.metal: rms_norm"
};

struct InFlight {
  uint64_t ticket;
  NS::SharedPtr<MTL::CommandBuffer> commands;
};

class MetalDevice : public Device {
 public:
  explicit MetalDevice(NS::SharedPtr<MTL::Device> device)
      : device_(std::move(device)), queue_(NS::TransferPtr(device_->newCommandQueue(kInFlight + 1))) {
    if (!queue_) fail(ErrorKind::Memory, "Metal gave no command queue");
  }

  ~MetalDevice() override {
    const Pool pool;
    if (encoder_) encoder_->endEncoding();
    encoder_.reset();
    commands_.reset();
    for (const InFlight& each : in_flight_) each.commands->waitUntilCompleted();
    in_flight_.clear();
    pipelines_.clear();
    libraries_.clear();
    queue_.reset();
    device_.reset();
  }

  std::string description() const override {
    const Pool pool;
    return "metal (" + std::string(device_->name()->utf8String()) + ")";
  }

  bool matrix_units() const override { return true; }  // every GPU that make_metal_device() accepts has them

  // One memory for both: Private would only take host() away. Metal hands out zeroed pages.
  std::unique_ptr<Memory> allocate(size_t bytes, Placement) override {
    const Pool pool;
    check_size(bytes);
    // Metal has no buffers of no bytes.
    auto buffer = NS::TransferPtr(device_->newBuffer(std::max<size_t>(bytes, 1), MTL::ResourceStorageModeShared));
    if (!buffer) fail(ErrorKind::Memory, "Metal refused ", bytes, " bytes of memory: use a smaller memory ceiling");
    return std::make_unique<MetalMemory>(std::move(buffer), bytes);
  }

  std::unique_ptr<Memory> wrap(const std::byte* base, size_t bytes) override {
    const Pool pool;
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    if (reinterpret_cast<uintptr_t>(base) % page || bytes % page || bytes == 0)
      fail(ErrorKind::Memory, "the GPU can only share whole pages of ", page, " bytes, not ", bytes, " bytes at ",
           static_cast<const void*>(base));
    check_size(bytes);
    auto buffer = NS::TransferPtr(device_->newBuffer(base, bytes, MTL::ResourceStorageModeShared, nullptr));
    if (!buffer) fail(ErrorKind::Memory, "Metal refused to share ", bytes, " bytes of memory");
    return std::make_unique<MetalMemory>(std::move(buffer), bytes);
  }

  void read(const Memory& from, uint64_t offset, void* to, size_t bytes) override {
    std::memcpy(to, from.host() + offset, bytes);
  }

  void write(Memory& to, uint64_t offset, const void* from, size_t bytes) override {
    std::memcpy(to.host() + offset, from, bytes);
  }

  void clear(Memory& memory) override { std::memset(memory.host(), 0, memory.bytes()); }

  const Pipeline& pipeline(const Kernel& kernel, std::span<const Constant> constants) override {
    const Pool pool;
    std::string key = std::string(kernel.file) + ".metal: " + kernel.name;
    const std::string name = key;
    for (const Constant& each : constants) key += ' ' + std::to_string(each.index) + '=' + std::to_string(each.value);
    std::unique_ptr<MetalPipeline>& kept = pipelines_[key];
    if (!kept) kept = compile(kernel, name, constants);
    return *kept;
  }

  void dispatch(const Pipeline& pipeline, std::span<const Binding> buffers, const void* arguments,
                size_t argument_bytes, Grid groups, uint32_t threads) override {
    const Pool pool;
    const auto& chosen = static_cast<const MetalPipeline&>(pipeline);
    if (argument_bytes > kMostArgumentBytes)
      fail(ErrorKind::Input, chosen.name, ": ", argument_bytes, " bytes of arguments, the most is ",
           kMostArgumentBytes);
    // A kernel that needs many registers may allow fewer threads than the GPU does.
    const size_t most = chosen.state->maxTotalThreadsPerThreadgroup();
    if (threads == 0 || threads % kSimdWidth || threads > most)
      fail(ErrorKind::Input, chosen.name, ": threadgroups of ", threads, " threads, must be a multiple of ", kSimdWidth,
           " up to ", most, " on this GPU");
    MTL::ComputeCommandEncoder* encoder = begin();
    encoder->setComputePipelineState(chosen.state.get());
    NS::UInteger index = 0;
    for (const Binding& each : buffers) encoder->setBuffer(of_metal(*each.memory).buffer(), each.offset, index++);
    if (argument_bytes > 0) encoder->setBytes(arguments, argument_bytes, index);
    encoder->dispatchThreadgroups(MTL::Size(groups.x, groups.y, groups.z), MTL::Size(threads, 1, 1));
    ++counters_.dispatches;
  }

  void barrier() override {
    const Pool pool;
    // Without an open encoder nothing was queued since the last commit, and command buffers that use the same memory
    // run one after the other.
    if (encoder_) encoder_->memoryBarrier(MTL::BarrierScopeBuffers);
  }

  void use(const Memory& memory) override {
    const Pool pool;
    MTL::Buffer* buffer = of_metal(memory).buffer();
    MTL::ComputeCommandEncoder* encoder = begin();
    if (used_.insert(buffer).second) encoder->useResource(buffer, MTL::ResourceUsageRead | MTL::ResourceUsageWrite);
  }

  uint64_t commit() override {
    const Pool pool;
    if (!encoder_) return committed_;
    encoder_->endEncoding();
    commands_->commit();
    in_flight_.push_back({++committed_, std::move(commands_)});
    encoder_.reset();
    commands_.reset();
    used_.clear();
    ++counters_.commits;
    return committed_;
  }

  void wait(uint64_t ticket) override {
    const Pool pool;
    if (ticket > committed_) fail(ErrorKind::Input, "ticket ", ticket, " was never given: the last is ", committed_);
    if (in_flight_.empty() || in_flight_.front().ticket > ticket) return;
    ++counters_.waits;
    // All that the ticket covers is taken off the list before a failure is reported: the next wait is not about it.
    std::string failure;
    while (!in_flight_.empty() && in_flight_.front().ticket <= ticket) {
      MTL::CommandBuffer* commands = in_flight_.front().commands.get();
      commands->waitUntilCompleted();
      if (commands->status() != MTL::CommandBufferStatusCompleted && failure.empty())
        failure = message(commands->error());
      in_flight_.pop_front();
    }
    if (!failure.empty()) fail(ErrorKind::Numeric, "the GPU failed: ", failure);
  }

  Counters counters() const override { return counters_; }

 private:
  void check_size(size_t bytes) const {
    const size_t most = device_->maxBufferLength();
    if (bytes > most)
      fail(ErrorKind::Memory, "a GPU buffer of ", bytes, " bytes is over the ", most,
           " that this GPU allows: use a smaller memory ceiling");
  }

  // The encoder of the command buffer that is being filled. Unretained references: the owners of memory wait before
  // they free it, and pipelines stay.
  MTL::ComputeCommandEncoder* begin() {
    if (encoder_) return encoder_.get();
    if (in_flight_.size() == kInFlight) wait(in_flight_.front().ticket);
    commands_ = NS::RetainPtr(queue_->commandBufferWithUnretainedReferences());
    if (!commands_) fail(ErrorKind::Memory, "Metal gave no command buffer");
    encoder_ = NS::RetainPtr(commands_->computeCommandEncoder(MTL::DispatchTypeConcurrent));
    if (!encoder_) fail(ErrorKind::Memory, "Metal gave no encoder");
    return encoder_.get();
  }

  MTL::Library* library(const std::string& file) {
    NS::SharedPtr<MTL::Library>& kept = libraries_[file];
    if (kept) return kept.get();
    const std::string source(shader_source(file));
    const auto options = NS::TransferPtr(MTL::CompileOptions::alloc()->init());
    options->setLanguageVersion(MTL::LanguageVersion3_1);
    // Fast math may assume that there are no infinities and NaNs, which masks and checks of results are made of, and it
    // may reorder sums, whose order is part of what we promise. Kernels ask for what they want by name (precise::,
    // fast::). This setter, not setMathMode, because macOS 14 and iOS 17 know no other.
    options->setFastMathEnabled(false);
    NS::Error* error = nullptr;
    kept = NS::TransferPtr(device_->newLibrary(string(source), options.get(), &error));
    if (!kept) fail(ErrorKind::Input, "the shader ", file, ".metal does not compile: ", message(error));
    return kept.get();
  }

  std::unique_ptr<MetalPipeline> compile(const Kernel& kernel, const std::string& name,
                                         std::span<const Constant> constants) {
    const auto values = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
    for (const Constant& each : constants)
      values->setConstantValue(&each.value, MTL::DataTypeUInt, NS::UInteger(each.index));
    NS::Error* error = nullptr;
    const auto function = NS::TransferPtr(library(kernel.file)->newFunction(string(kernel.name), values.get(), &error));
    if (!function) fail(ErrorKind::Input, name, ": ", message(error));
    auto made = std::make_unique<MetalPipeline>();
    made->name = name;
    made->state = NS::TransferPtr(device_->newComputePipelineState(function.get(), &error));
    if (!made->state) fail(ErrorKind::Input, name, ": ", message(error));
    if (made->state->threadExecutionWidth() != kSimdWidth)
      fail(ErrorKind::Input, name, ": SIMD groups of ", made->state->threadExecutionWidth(), " threads, need ",
           kSimdWidth);
    return made;
  }

  NS::SharedPtr<MTL::Device> device_;
  NS::SharedPtr<MTL::CommandQueue> queue_;
  std::map<std::string, NS::SharedPtr<MTL::Library>> libraries_;
  std::map<std::string, std::unique_ptr<MetalPipeline>> pipelines_;
  NS::SharedPtr<MTL::CommandBuffer> commands_;  // being filled; null between a commit and what is queued next
  NS::SharedPtr<MTL::ComputeCommandEncoder> encoder_;
  std::unordered_set<const MTL::Buffer*> used_;  // declared to the encoder
  std::deque<InFlight> in_flight_;               // ascending tickets
  uint64_t committed_ = 0;                       // the last ticket
  Counters counters_;
};

}  // namespace

bool metal_available() {
  const Pool pool;
  const auto device = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
  return device && device->supportsFamily(MTL::GPUFamilyApple7);
}

std::unique_ptr<Device> make_metal_device() {
  const Pool pool;
  auto device = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
  if (!device) fail(ErrorKind::Input, "this machine has no GPU that Metal can use");
  if (!device->supportsFamily(MTL::GPUFamilyApple7))
    fail(ErrorKind::Input, "the GPU ", device->name()->utf8String(),
         " is too old: Swiftlet needs an Apple GPU of 2020 (M1, A14) or later");
  return std::make_unique<MetalDevice>(std::move(device));
}

}  // namespace swiftlet::gpu
