// Apple GPUs, through Metal. Needs macOS 14 or iOS 17 and a GPU of the Apple7 family (M1, A14) or later.
#pragma once

#include <memory>

#include "backend/gpu/device.h"

namespace swiftlet::gpu {

// Whether there is such a GPU.
bool metal_available();

// The system's GPU. Throws ErrorKind::Input where there is none, or it is too old.
std::unique_ptr<Device> make_metal_device();

}  // namespace swiftlet::gpu
