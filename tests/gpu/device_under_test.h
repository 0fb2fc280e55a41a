// The device that the tests of the kernels run on: SWIFTLET_GPU_DEVICE=emulated (default), metal or cuda.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "backend/gpu/device.h"

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

// One dispatch, and waits for it.
template <class Arguments>
void run(Device& device, const Kernel& kernel, std::initializer_list<Constant> constants,
         std::initializer_list<Binding> buffers, const Arguments& arguments, Grid groups, uint32_t threads) {
  const Pipeline& pipeline = device.pipeline(kernel, std::span(constants.begin(), constants.size()));
  device.dispatch(pipeline, std::span(buffers.begin(), buffers.size()), &arguments, sizeof arguments, groups, threads);
  device.wait(device.commit());
}

inline std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace swiftlet::gpu::test
