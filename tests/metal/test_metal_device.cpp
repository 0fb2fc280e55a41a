// The Metal device, on software Metal, held to what device.h promises.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend/gpu/metal/metal_device.h"
#include "base/error.h"
#include "base/memory.h"
#include "kernel_args.h"
#include "software_metal.h"

using namespace swiftlet;
using namespace swiftlet::gpu;

namespace {

constexpr Kernel kNorm{"norm", "norm"};
constexpr Constant kNoResidual[] = {{kConstResidual, kNone}};

float* floats(const Memory& memory) { return reinterpret_cast<float*>(memory.host()); }

void fill(const Memory& memory, float scale) {
  for (size_t i = 0; i < memory.bytes() / sizeof(float); ++i) floats(memory)[i] = scale * float(i % 17) - 3;
}

// Rows of a [rows, columns] input, a weight and an output, and the kernel over them.
struct Norm {
  static constexpr uint32_t kRows = 3, kColumns = 200;
  Device& device;
  const Pipeline& pipeline = device.pipeline(kNorm, kNoResidual);
  std::unique_ptr<Memory> x = device.allocate(kRows * kColumns * sizeof(float), Placement::Shared);
  std::unique_ptr<Memory> weight = device.allocate(kColumns * sizeof(float), Placement::Shared);
  std::unique_ptr<Memory> out = device.allocate(kRows * kColumns * sizeof(float), Placement::Shared);

  explicit Norm(Device& on) : device(on) {
    fill(*x, 0.5f);
    fill(*weight, 0.25f);
  }

  void dispatch(const Memory& from, const Memory& to) {
    const NormArgs args{kColumns, 0, 0, 1e-6f};
    const Binding unused{weight.get()};  // without a residual
    const Binding buffers[] = {{&from, 0, true}, {weight.get()}, {&to, 0, true}, unused, unused, unused, unused};
    device.dispatch(pipeline, buffers, &args, sizeof args, {kRows}, 64);
  }

  std::vector<float> expected(const float* in) const {
    std::vector<float> result;
    for (uint32_t row = 0; row < kRows; ++row, in += kColumns) {
      double sum = 0;
      for (uint32_t i = 0; i < kColumns; ++i) sum += double(in[i]) * in[i];
      for (uint32_t i = 0; i < kColumns; ++i)
        result.push_back(float(in[i] / std::sqrt(sum / kColumns + 1e-6) * floats(*weight)[i]));
    }
    return result;
  }
};

void check_near(const float* values, const std::vector<float>& expected) {
  float worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::fabs(values[i] - expected[i]));
  CHECK(worst < 1e-5f);
}

}  // namespace

TEST_CASE("a kernel computes, and its results are there after the wait") {
  REQUIRE(metal_available());
  const auto device = make_metal_device();
  CHECK(device->description() == "metal (software)");
  Norm norm(*device);
  norm.dispatch(*norm.x, *norm.out);
  device->wait(device->commit());
  check_near(floats(*norm.out), norm.expected(floats(*norm.x)));
}

TEST_CASE("a barrier, and a commit, order what depends on each other") {
  const auto device = make_metal_device();
  Norm norm(*device);
  const auto second = device->allocate(norm.out->bytes(), Placement::Private);
  const auto third = device->allocate(norm.out->bytes(), Placement::Private);
  norm.dispatch(*norm.x, *norm.out);
  device->barrier();
  norm.dispatch(*norm.out, *second);
  device->barrier();
  device->commit();
  norm.dispatch(*second, *third);
  device->wait(device->commit());
  check_near(floats(*third), norm.expected(norm.expected(norm.expected(floats(*norm.x)).data()).data()));
}

TEST_CASE("a missing barrier is seen") {
  const auto device = make_metal_device();
  Norm norm(*device);
  const auto second = device->allocate(norm.out->bytes(), Placement::Private);
  norm.dispatch(*norm.x, *norm.out);
  norm.dispatch(*norm.out, *second);
  device->wait(device->commit());
  const auto reports = software_metal::take_reports();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0] == "norm: buffer 0 needs a barrier after norm");
}

TEST_CASE("counters and tickets") {
  const auto device = make_metal_device();
  Norm norm(*device);
  CHECK(device->commit() == 0);  // nothing was queued
  device->wait(0);
  norm.dispatch(*norm.x, *norm.out);
  const uint64_t first = device->commit();
  CHECK(first > 0);
  CHECK(device->commit() == first);
  norm.dispatch(*norm.x, *norm.out);
  const uint64_t second = device->commit();
  CHECK(second > first);
  device->wait(second);
  device->wait(first);  // done with the second: no wait
  const Counters counters = device->counters();
  CHECK(counters.dispatches == 2);
  CHECK(counters.commits == 2);
  CHECK(counters.waits == 1);
  CHECK_THROWS_AS(device->wait(second + 1), Error);
}

TEST_CASE("hundreds of commits without a wait do not hang") {
  const auto device = make_metal_device();
  Norm norm(*device);
  for (int i = 0; i < 600; ++i) {
    norm.dispatch(*norm.x, *norm.out);
    device->commit();
  }
  norm.dispatch(*norm.x, *norm.out);
  device->wait(device->commit());
  check_near(floats(*norm.out), norm.expected(floats(*norm.x)));
  CHECK(device->counters().commits == 601);
}

TEST_CASE("what was queued and never committed goes without a trace") {
  const auto device = make_metal_device();
  Norm norm(*device);
  norm.dispatch(*norm.x, *norm.out);
  CHECK(software_metal::take_reports().empty());
  device->wait(device->commit());
}

TEST_CASE("memory") {
  const auto device = make_metal_device();

  SUBCASE("is zeroed, and of any size") {
    for (const size_t bytes : {size_t(0), size_t(1), size_t(5000), size_t(1) << 20}) {
      const auto memory = device->allocate(bytes, Placement::Shared);
      CHECK(memory->bytes() == bytes);
      size_t set = 0;
      for (size_t i = 0; i < bytes; ++i) set += memory->host()[i] != std::byte(0);
      CHECK(set == 0);
    }
  }

  SUBCASE("read, write, clear") {
    const auto memory = device->allocate(1000, Placement::Private);
    const char text[] = "hello";
    device->write(*memory, 10, text, sizeof text);
    char back[sizeof text] = {};
    device->read(*memory, 10, back, sizeof back);
    CHECK(std::strcmp(back, text) == 0);
    device->clear(*memory);
    device->read(*memory, 10, back, sizeof back);
    CHECK(back[0] == 0);
  }

  SUBCASE("too large is an error that says so") {
    try {
      device->allocate(size_t(1) << 50, Placement::Shared);
      FAIL("a petabyte was given");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Memory);
      CHECK(std::string(error.what()).find("use a smaller memory ceiling") != std::string::npos);
    }
  }

  SUBCASE("of the caller's is shared both ways") {
    Norm norm(*device);
    PageMemory pages(norm.x->bytes());
    std::memcpy(pages.data(), norm.x->host(), norm.x->bytes());
    {
      const auto wrapped = device->wrap(pages.data(), pages.bytes());
      CHECK(wrapped->host() == pages.data());
      norm.dispatch(*wrapped, *norm.out);
      device->wait(device->commit());
      check_near(floats(*norm.out), norm.expected(floats(*norm.x)));
      reinterpret_cast<float*>(pages.data())[0] = 99;  // seen without a copy
      norm.dispatch(*wrapped, *norm.out);
      device->wait(device->commit());
      check_near(floats(*norm.out), norm.expected(reinterpret_cast<float*>(pages.data())));
    }
    CHECK(reinterpret_cast<float*>(pages.data())[0] == 99);  // still the caller's
    CHECK_THROWS_AS(device->wrap(pages.data() + 16, pages.bytes()), Error);
    CHECK_THROWS_AS(device->wrap(pages.data(), 100), Error);
  }
}

TEST_CASE("pipelines") {
  const auto device = make_metal_device();
  CHECK(&device->pipeline(kNorm, kNoResidual) == &device->pipeline(kNorm, kNoResidual));
  try {
    device->pipeline({"norm", "no_such_kernel"}, {});
    FAIL("a kernel that does not exist");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Input);
    CHECK(std::string(error.what()) == "norm.metal: no_such_kernel: no function named no_such_kernel");
  }
  Norm norm(*device);
  const Binding buffers[] = {{norm.x.get()}, {norm.weight.get()}, {norm.out.get(), 0, true}};
  const NormArgs args{};
  CHECK_THROWS_AS(device->dispatch(norm.pipeline, buffers, &args, sizeof args, {1}, 48), Error);
  CHECK_THROWS_AS(device->dispatch(norm.pipeline, buffers, &args, sizeof args, {1}, 2048), Error);
  const char much[300] = {};
  CHECK_THROWS_AS(device->dispatch(norm.pipeline, buffers, much, sizeof much, {1}, 32), Error);
}

TEST_CASE("a failure on the GPU is an error at the wait, once") {
  const auto device = make_metal_device();
  Norm norm(*device);
  const auto small = device->allocate(64, Placement::Shared);
  norm.dispatch(*norm.x, *small);  // writes past its end
  const uint64_t ticket = device->commit();
  try {
    device->wait(ticket);
    FAIL("a write past the end was not seen");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Numeric);
    CHECK(std::string(error.what()).starts_with("the GPU failed: norm: "));
  }
  device->wait(ticket);
  CHECK(software_metal::take_reports().size() == 1);
  norm.dispatch(*norm.x, *norm.out);
  device->wait(device->commit());
  check_near(floats(*norm.out), norm.expected(floats(*norm.x)));
}
