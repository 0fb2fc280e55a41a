// Each test here makes one mistake that Metal punishes, or worse does not, and checks that software Metal reports it.
// Written against metal-cpp itself, since the device is there to keep such mistakes from happening.
#include <doctest/doctest.h>

#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "software_metal.h"

namespace {

constexpr const char* kSource = R"(
#include <metal_stdlib>
using namespace metal;
constant uint step [[function_constant(0)]];
kernel void add(device float* x [[buffer(0)]], constant uint& n [[buffer(1)]],
                uint i [[thread_position_in_grid]]) {
  if (i < n) { x[i] += float(step); }
}
kernel void copy(const device float* x [[buffer(0)]], device float* y [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  y[i] = x[i];
}
kernel void follow(const device ulong* table [[buffer(0)]], device float* y [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
  const device float* x = (const device float*)table[0];
  y[i] = x[i];
}
)";

constexpr uint32_t kFloats = 64;

// Everything for a dispatch, and a pool around it. Objects of Metal as its own users would hold them.
struct Bench {
  NS::SharedPtr<NS::AutoreleasePool> pool = NS::TransferPtr(NS::AutoreleasePool::alloc()->init());
  NS::SharedPtr<MTL::Device> device = NS::TransferPtr(MTL::CreateSystemDefaultDevice());
  NS::SharedPtr<MTL::CommandQueue> queue = NS::TransferPtr(device->newCommandQueue(8));
  NS::SharedPtr<MTL::Library> library = compile(kSource);
  NS::SharedPtr<MTL::Buffer> x = buffer();
  NS::SharedPtr<MTL::Buffer> y = buffer();
  MTL::CommandBuffer* commands = queue->commandBuffer();
  MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder(MTL::DispatchTypeConcurrent);
  std::vector<NS::SharedPtr<MTL::ComputePipelineState>> pipelines;
  std::string error;
  uint32_t constant_index = 0;

  ~Bench() {
    pipelines.clear();
    x.reset();
    y.reset();
    library.reset();
    queue.reset();
  }

  NS::SharedPtr<MTL::Buffer> buffer() {
    return NS::TransferPtr(device->newBuffer(kFloats * sizeof(float), MTL::ResourceStorageModeShared));
  }
  float* values(const NS::SharedPtr<MTL::Buffer>& of) { return static_cast<float*>(of->contents()); }

  NS::SharedPtr<MTL::Library> compile(const char* source) {
    NS::Error* why = nullptr;
    auto made = NS::TransferPtr(device->newLibrary(NS::String::string(source, NS::UTF8StringEncoding), nullptr, &why));
    if (!made) error = why->localizedDescription()->utf8String();
    return made;
  }

  NS::SharedPtr<MTL::Function> function(const char* name, MTL::DataType type = MTL::DataTypeUInt) {
    const uint32_t step = 2;
    const auto constants = NS::TransferPtr(MTL::FunctionConstantValues::alloc()->init());
    constants->setConstantValue(&step, type, NS::UInteger(constant_index));
    NS::Error* why = nullptr;
    auto made =
        NS::TransferPtr(library->newFunction(NS::String::string(name, NS::UTF8StringEncoding), constants.get(), &why));
    if (!made) error = why->localizedDescription()->utf8String();
    return made;
  }

  void choose(const char* name) {
    NS::Error* why = nullptr;
    pipelines.push_back(NS::TransferPtr(device->newComputePipelineState(function(name).get(), &why)));
    encoder->setComputePipelineState(pipelines.back().get());
  }

  void dispatch() { encoder->dispatchThreadgroups(MTL::Size(kFloats / 32, 1, 1), MTL::Size(32, 1, 1)); }

  void add(const NS::SharedPtr<MTL::Buffer>& to) {
    choose("add");
    encoder->setBuffer(to.get(), 0, 0);
    encoder->setBytes(&kFloats, sizeof kFloats, 1);
    dispatch();
  }

  void copy(const NS::SharedPtr<MTL::Buffer>& from, const NS::SharedPtr<MTL::Buffer>& to) {
    choose("copy");
    encoder->setBuffer(from.get(), 0, 0);
    encoder->setBuffer(to.get(), 0, 1);
    dispatch();
  }

  void finish() {
    encoder->endEncoding();
    commands->commit();
    commands->waitUntilCompleted();
  }
};

// Takes what was reported; whether `text` is in the first of it.
bool reported(const std::string& text) {
  const auto reports = software_metal::take_reports();
  return !reports.empty() && reports[0].find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("no mistake, no report") {
  Bench bench;
  bench.add(bench.x);
  bench.encoder->memoryBarrier(MTL::BarrierScopeBuffers);
  bench.add(bench.x);
  bench.encoder->memoryBarrier(MTL::BarrierScopeBuffers);
  bench.copy(bench.x, bench.y);
  bench.finish();
  CHECK(bench.values(bench.y)[kFloats - 1] == 4);
  CHECK(bench.commands->status() == MTL::CommandBufferStatusCompleted);
  CHECK(software_metal::take_reports().empty());
}

TEST_CASE("a leak") {
  const auto before = software_metal::live_objects();
  MTL::Buffer* forgotten = nullptr;
  {
    Bench bench;
    bench.finish();
    forgotten = bench.device->newBuffer(64, MTL::ResourceStorageModeShared);
  }
  auto after = software_metal::live_objects();
  CHECK(after["MTLBuffer"] == 1);
  forgotten->release();
  CHECK(software_metal::live_objects() == before);
}

TEST_CASE("use after release") {
  Bench bench;
  MTL::Buffer* buffer = bench.device->newBuffer(64, MTL::ResourceStorageModeShared);
  buffer->release();
  CHECK(buffer->length() == 0);
  CHECK(reported("[MTLBuffer length] sent to a released object"));
  buffer->release();
  CHECK(reported("[MTLBuffer release] sent to a released object"));
  bench.finish();
}

TEST_CASE("no autorelease pool") {
  Bench bench;
  bench.finish();
  bench.pool.reset();
  MTL::CommandBuffer* commands = bench.queue->commandBuffer();
  CHECK(reported("MTLCommandBuffer needs an autorelease pool"));
  commands->release();
}

TEST_CASE("an unbound buffer") {
  Bench bench;
  bench.choose("copy");
  bench.encoder->setBuffer(bench.x.get(), 0, 0);
  bench.dispatch();
  CHECK(reported("copy: buffer 1 is not bound"));
  bench.finish();
}

TEST_CASE("bytes where a buffer belongs, and the reverse") {
  Bench bench;
  bench.choose("add");
  bench.encoder->setBuffer(bench.x.get(), 0, 0);
  bench.encoder->setBuffer(bench.y.get(), 0, 1);
  bench.dispatch();
  CHECK(reported("add: buffer 1 must be set with setBytes"));
  bench.encoder->setBytes(&kFloats, sizeof kFloats, 0);
  bench.encoder->setBytes(&kFloats, sizeof kFloats, 1);
  bench.dispatch();
  CHECK(reported("add: buffer 0 must be a buffer"));
  bench.finish();
}

TEST_CASE("missing barriers") {
  Bench bench;
  SUBCASE("write after write") {
    bench.add(bench.x);
    bench.add(bench.x);
    CHECK(reported("add: buffer 0 needs a barrier after add"));
  }
  SUBCASE("read after write") {
    bench.add(bench.x);
    bench.copy(bench.x, bench.y);
    CHECK(reported("copy: buffer 0 needs a barrier after add"));
  }
  SUBCASE("write after read") {
    bench.copy(bench.x, bench.y);
    bench.add(bench.x);
    CHECK(reported("add: buffer 0 needs a barrier after copy"));
  }
  SUBCASE("two reads need none") {
    const auto z = bench.buffer();
    bench.copy(bench.x, bench.y);
    bench.copy(bench.x, z);
    bench.finish();
    CHECK(software_metal::take_reports().empty());
    return;
  }
  bench.finish();
}

TEST_CASE("encoders left open") {
  SUBCASE("at a commit") {
    Bench bench;
    bench.commands->commit();
    CHECK(reported("commit with an open encoder"));
    bench.finish();
  }
  SUBCASE("and released") {
    {
      Bench bench;
    }
    CHECK(reported("an encoder was released without endEncoding"));
  }
  SUBCASE("or used when they were closed") {
    Bench bench;
    bench.finish();
    bench.dispatch();
    CHECK(reported("dispatchThreadgroups after endEncoding"));
  }
}

TEST_CASE("command buffers") {
  Bench bench;
  SUBCASE("committed twice") {
    bench.finish();
    bench.commands->commit();
    CHECK(reported("committed twice"));
  }
  SUBCASE("waited for before the commit") {
    bench.commands->waitUntilCompleted();
    CHECK(reported("waiting for a command buffer that was not committed"));
    bench.finish();
  }
  SUBCASE("dropped uncommitted") {
    bench.add(bench.x);
    bench.encoder->endEncoding();
    bench.pipelines.clear();
    bench.pool.reset();
    CHECK(reported("dropped uncommitted"));
  }
  SUBCASE("more than the queue allows") {
    for (int i = 0; i < 8; ++i) bench.queue->commandBuffer();
    CHECK(reported("more command buffers are alive than the queue allows"));
    bench.finish();
  }
}

TEST_CASE("a method that does not exist") {
  Bench bench;
  CHECK(bench.device->newDepthStencilState(nullptr) == nullptr);
  CHECK(reported("[MTLDevice newDepthStencilStateWithDescriptor:]: no such method"));
  bench.finish();
}

TEST_CASE("a buffer reached by its address") {
  Bench bench;
  bench.values(bench.x)[5] = 7;
  const auto table = bench.buffer();
  *static_cast<uint64_t*>(table->contents()) = bench.x->gpuAddress();
  bench.choose("follow");
  bench.encoder->setBuffer(table.get(), 0, 0);
  bench.encoder->setBuffer(bench.y.get(), 0, 1);
  SUBCASE("declared") {
    bench.encoder->useResource(bench.x.get(), MTL::ResourceUsageRead);
    bench.dispatch();
    bench.finish();
    CHECK(bench.values(bench.y)[5] == 7);
  }
  SUBCASE("not declared") {
    bench.dispatch();
    bench.finish();
    CHECK(bench.commands->status() == MTL::CommandBufferStatusError);
    CHECK(reported("was not declared with useResource"));
  }
}

TEST_CASE("a kernel that runs past the end of a buffer") {
  Bench bench;
  bench.choose("copy");
  bench.encoder->setBuffer(bench.x.get(), 4, 0);
  bench.encoder->setBuffer(bench.y.get(), 0, 1);
  bench.dispatch();
  bench.finish();
  CHECK(reported("which is in no buffer that it was given: past the end of one"));
}

TEST_CASE("a buffer released before it was used") {
  Bench bench;
  bench.encoder->endEncoding();
  bench.commands = bench.queue->commandBufferWithUnretainedReferences();
  bench.encoder = bench.commands->computeCommandEncoder();
  bench.add(bench.x);
  bench.x.reset();
  bench.finish();
  CHECK(reported("a buffer was released before the commands that use it had run"));
}

TEST_CASE("limits") {
  Bench bench;
  SUBCASE("of setBytes") {
    const std::vector<char> bytes(4097);
    bench.encoder->setBytes(bytes.data(), bytes.size(), 0);
    CHECK(reported("setBytes: 4097 bytes"));
  }
  SUBCASE("of a struct of arguments") {
    bench.choose("add");
    bench.encoder->setBuffer(bench.x.get(), 0, 0);
    bench.encoder->setBytes(&kFloats, 2, 1);
    bench.dispatch();
    CHECK(reported("add: buffer 1 takes 4 bytes, not 2"));
  }
  SUBCASE("of buffer indices") {
    bench.encoder->setBuffer(bench.x.get(), 0, 31);
    CHECK(reported("buffer index 31 is over 30"));
  }
  SUBCASE("of offsets") {
    bench.encoder->setBuffer(bench.x.get(), kFloats * sizeof(float), 0);
    CHECK(reported("the offset is past the end"));
  }
  SUBCASE("of threadgroup memory") {
    bench.encoder->setThreadgroupMemoryLength(20000, 0);
    bench.encoder->setThreadgroupMemoryLength(20000, 1);
    CHECK(reported("40000 bytes of threadgroup memory"));
  }
  SUBCASE("of threads") {
    bench.add(bench.x);
    bench.encoder->dispatchThreadgroups(MTL::Size(1, 1, 1), MTL::Size(2048, 1, 1));
    CHECK(reported("add: threadgroups of 2048 threads"));
  }
  SUBCASE("of shared pages") {
    CHECK(bench.device->newBuffer(bench.values(bench.x), 100, MTL::ResourceStorageModeShared, nullptr) == nullptr);
    CHECK(reported("not whole pages"));
  }
  bench.finish();
}

TEST_CASE("function constants") {
  Bench bench;
  CHECK(bench.function("add"));
  SUBCASE("of another type") {
    CHECK(!bench.function("add", MTL::DataTypeBool));
    CHECK(bench.error.find("step is a uint") != std::string::npos);
    bench.finish();
  }
  SUBCASE("missing") {
    bench.constant_index = 1;
    bench.add(bench.x);
    bench.finish();
    CHECK(reported("function constant step is not set"));
  }
}

TEST_CASE("a shader that does not compile") {
  Bench bench;
  CHECK(!bench.compile("#line 7 \"wrong.metal\"\nkernel void f(device float* x [[buffer(0)]]) { y = 1; }"));
  CHECK(bench.error.find("wrong.metal:7") != std::string::npos);
  bench.finish();
}
