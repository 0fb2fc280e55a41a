#include "device_under_test.h"

#include <cstdlib>
#include <string>

#include "backend/gpu/emulated/emulated_device.h"
#include "base/error.h"

#ifdef SWIFTLET_CUDA
#include "backend/gpu/cuda/cuda_device.h"
#endif
#ifdef SWIFTLET_METAL
#include "backend/gpu/metal/metal_device.h"
#endif

namespace swiftlet::gpu::test {

void on_devices(const std::function<void(Device&)>& test) {
  const char* variable = std::getenv("SWIFTLET_GPU_DEVICE");
  const std::string name = variable ? variable : "emulated";
  std::vector<std::unique_ptr<Device>> devices;
  if (name == "emulated")
    for (Order order : {Order::Forwards, Order::Backwards}) devices.push_back(make_emulated_device({.order = order}));
#ifdef SWIFTLET_METAL
  else if (name == "metal")
    devices.push_back(make_metal_device());
#endif
#ifdef SWIFTLET_CUDA
  else if (name == "cuda")
    devices.push_back(make_cuda_device());
#endif
  else
    fail(ErrorKind::Input, "SWIFTLET_GPU_DEVICE: the tests have no device named ", name);
  for (const std::unique_ptr<Device>& device : devices) {
    CAPTURE(device->description());
    test(*device);
  }
}

std::unique_ptr<Memory> allocate_sparse(Device& device, uint64_t bytes) {
  if (device.description().starts_with("metal")) {  // each page of it would be real memory
    MESSAGE("not tested: ", bytes >> 30, " GiB of memory that is shared with the CPU");
    return nullptr;
  }
  try {
    return device.allocate(bytes, Placement::Private);
  } catch (const Error& error) {
    MESSAGE("not tested: ", error.what());
    return nullptr;
  }
}

}  // namespace swiftlet::gpu::test
