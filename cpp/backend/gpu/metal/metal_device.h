// Apple GPUs, through Metal. Needs macOS 14 or iOS 17 and a GPU of the Apple7 family (M1, A14) or later.
#pragma once

#include <memory>

#include "backend/gpu/device.h"

namespace swiftlet::gpu {

// The system's GPU; null where there is none. Throws ErrorKind::Input if the GPU is too old.
std::unique_ptr<Device> make_metal_device();

}  // namespace swiftlet::gpu
