// The host code of cuda_device, on a card or under the fake driver (SWIFTLET_GPU_DEVICE=cuda); else, that its absence
// is told clearly.
#ifdef SWIFTLET_CUDA
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../../metal/kernel_args.h"
#include "../cpp/temp_folder.h"
#include "backend/gpu/cuda/cuda_device.h"
#include "base/error.h"
#include "base/memory.h"
#include "device_under_test.h"

using namespace swiftlet;
using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

bool on_cuda() {
  const char* device = std::getenv("SWIFTLET_GPU_DEVICE");
  return device && std::string(device) == "cuda";
}

// x, weight, h and what the kernel does not read without a residual.
struct Norm {
  static constexpr uint32_t kColumns = 64;
  std::unique_ptr<Memory> x, weight, h;

  explicit Norm(Device& device)
      : x(upload(device, std::vector<float>(kColumns, 2.0f))),
        weight(upload(device, std::vector<float>(kColumns, 3.0f))),
        h(device.allocate(kColumns * sizeof(float), Placement::Private)) {}

  void dispatch(Device& device, uint32_t threads = 32) const {
    const Constant constants[] = {{kConstResidual, kNone}};
    const Binding none{weight.get()};
    const std::vector<Binding> buffers = {{x.get(), 0, true}, none, {h.get(), 0, true}, none, none, none, none};
    const NormArgs arguments{kColumns, 0, 0, 0.0f};
    device.dispatch(device.pipeline({"norm", "norm"}, constants), buffers, &arguments, sizeof arguments, {}, threads);
  }
  bool done(Device& device) const {
    const std::vector<float> result = download<float>(device, *h);
    return std::abs(result[0] - 3.0f) < 1e-5f && std::abs(result[kColumns - 1] - 3.0f) < 1e-5f;
  }
};

}  // namespace

TEST_CASE("cuda device: without a driver") {
  if (on_cuda() || dlopen("libcuda.so.1", RTLD_NOW)) return;
  CHECK(lacks(error_of(ErrorKind::Input, [] { make_cuda_device(); }), {"no CUDA driver: libcuda.so.1"}) == "");
}

TEST_CASE("cuda device: memory") {
  if (!on_cuda()) return;
  const auto device = make_cuda_device();
  CHECK(lacks(device->description(), {"cuda ("}) == "");
  const auto hidden = device->allocate(100, Placement::Private), shared = device->allocate(100, Placement::Shared);
  CHECK(hidden->host() == nullptr);
  CHECK(download<uint8_t>(*device, *hidden) == std::vector<uint8_t>(100));
  REQUIRE(shared->host() != nullptr);
  CHECK(shared->host()[99] == std::byte{0});
  const float value = 7;
  device->write(*hidden, 96, &value, 4);
  float back = 0;
  device->read(*hidden, 96, &back, 4);
  CHECK(back == 7);
  device->clear(*hidden);
  device->read(*hidden, 96, &back, 4);
  CHECK(back == 0);
  CHECK(lacks(error_of(ErrorKind::Input, [&] { device->read(*hidden, 97, &back, 4); }),
              {"4 bytes at 97 are not in a memory of 100 bytes"}) == "");
  CHECK(lacks(error_of(ErrorKind::Memory, [&] { device->allocate(size_t(1) << 50, Placement::Private); }),
              {"the GPU has no room for 1125899906842624 bytes: "}) == "");
  PageMemory pages(8192);
  pages.data()[5000] = std::byte{9};
  const auto wrapped = device->wrap(pages.data(), pages.bytes());
  CHECK(download<uint8_t>(*device, *wrapped)[5000] == 9);
  CHECK(device->allocate(0, Placement::Private)->bytes() == 0);
}

TEST_CASE("cuda device: experts are copied to the card and back by several threads, beside what is queued") {
  if (!on_cuda()) return;
  const auto device = make_cuda_device();
  REQUIRE(device->own_memory().has_value());
  CHECK(device->own_memory()->available > 0);
  constexpr size_t kBytes = 4096;
  constexpr int kThreads = 4;
  const auto slots = device->allocate(kThreads * kBytes, Placement::Private);
  const Norm norm(*device);
  norm.dispatch(*device);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      const std::shared_ptr<std::byte> staging = device->staging(kBytes);
      for (int round = 0; round < 20; ++round) {
        std::fill_n(staging.get(), kBytes, std::byte(10 * i + round));
        device->upload(*slots, i * kBytes, staging.get(), kBytes);
        std::fill_n(staging.get(), kBytes, std::byte(0));
        device->download(*slots, i * kBytes, staging.get(), kBytes);
        wrong += std::count(staging.get(), staging.get() + kBytes, std::byte(10 * i + round)) != kBytes;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  device->wait(device->commit());
  CHECK(norm.done(*device));
  device->copy(*slots, 0, *slots, 2 * kBytes, kBytes);
  const std::vector<uint8_t> bytes = download<uint8_t>(*device, *slots);
  CHECK(bytes[0] == 39);  // what slot 2 has
  CHECK(bytes[kBytes] == 29);
  CHECK(bytes[3 * kBytes - 1] == 39);
  CHECK(bytes[4 * kBytes - 1] == 49);
}

TEST_CASE("cuda device: tickets and counters") {
  if (!on_cuda()) return;
  const auto device = make_cuda_device();
  const Norm norm(*device);
  CHECK(device->commit() == 0);  // nothing was queued
  device->wait(0);
  norm.dispatch(*device);
  const uint64_t first = device->commit();
  CHECK(device->commit() == first);
  norm.dispatch(*device, 1024);  // more threads than a kernel may get without being told
  const uint64_t second = device->commit();
  CHECK(second > first);
  device->wait(second);
  CHECK(norm.done(*device));
  device->wait(first);
  CHECK(device->counters().dispatches == 2);
  CHECK(device->counters().commits == 2);
  CHECK(device->counters().waits == 1);
  CHECK(lacks(error_of(ErrorKind::Input, [&] { device->wait(second + 1); }), {"was not given yet"}) == "");
}

TEST_CASE("cuda device: kernels that are not there, and bindings that are not") {
  if (!on_cuda()) return;
  const auto device = make_cuda_device();
  CHECK(lacks(error_of(ErrorKind::Input, [&] { device->pipeline({"nothing", "norm"}, {}); }),
              {"there is no shader nothing.metal"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { device->pipeline({"norm", "nothing"}, {}); }),
              {"norm.metal has no kernel nothing"}) == "");
  const Constant constants[] = {{kConstResidual, kNone}};
  const Pipeline& pipeline = device->pipeline({"norm", "norm"}, constants);
  CHECK(lacks(error_of(ErrorKind::Input,
                       [&] { device->dispatch(pipeline, std::vector<Binding>{{}}, nullptr, 0, {}, 32); }),
              {"norm.metal: kernel norm: buffer 0: no memory is bound"}) == "");
}

TEST_CASE("cuda device: compiled kernels are kept on disk, and made again when the file is damaged") {
  if (!on_cuda()) return;
  const TempFolder folder;
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string saved = before ? before : "";
  ::setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  const auto run_once = [] {
    const auto device = make_cuda_device();
    const Norm norm(*device);
    norm.dispatch(*device);
    device->wait(device->commit());
    CHECK(norm.done(*device));
  };
  const auto kept = [&] {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "swiftlet")) files.push_back(entry.path());
    return files;
  };
  run_once();
  REQUIRE(kept().size() == 1);
  const auto size = std::filesystem::file_size(kept()[0]);
  const auto written = std::filesystem::last_write_time(kept()[0]);
  run_once();
  CHECK(kept().size() == 1);
  CHECK(std::filesystem::last_write_time(kept()[0]) == written);
  std::ofstream(kept()[0]) << "damaged";
  run_once();
  CHECK(std::filesystem::file_size(kept()[0]) == size);
  if (before)
    ::setenv("XDG_CACHE_HOME", saved.c_str(), 1);
  else
    ::unsetenv("XDG_CACHE_HOME");
}

#endif  // SWIFTLET_CUDA
