// The device that the tests of the kernels run on: SWIFTLET_GPU_DEVICE=emulated (default), metal or cuda.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backend/gpu/device.h"
#include "tests/random_matrix.h"

namespace swiftlet::gpu::test {

// Calls the test with the device: the emulated one in both of its orders, a real one once.
void on_devices(const std::function<void(Device&)>& test);

// Private memory that holds these values.
template <class T>
std::unique_ptr<Memory> upload(Device& device, const std::vector<T>& values) {
  std::unique_ptr<Memory> memory = device.allocate(values.size() * sizeof(T), Placement::Private);
  device.write(*memory, 0, values.data(), memory->bytes());
  return memory;
}

template <class T>
std::vector<T> download(Device& device, const Memory& memory) {
  std::vector<T> values(memory.bytes() / sizeof(T));
  device.read(memory, 0, values.data(), values.size() * sizeof(T));
  return values;
}

// Private memory of many GiB of which the test touches a few pages. Null, with a message, on a device that has no room
// for it.
std::unique_ptr<Memory> allocate_sparse(Device& device, uint64_t bytes);

// One dispatch, and waits for it.
template <class Arguments>
void run(Device& device, const Kernel& kernel, const std::vector<Constant>& constants,
         const std::vector<Binding>& buffers, const Arguments& arguments, Grid groups, uint32_t threads) {
  device.dispatch(device.pipeline(kernel, constants), buffers, &arguments, sizeof arguments, groups, threads);
  device.wait(device.commit());
}

using swiftlet::test::random_floats;

}  // namespace swiftlet::gpu::test
