// A GPU of NVIDIA. Needs the driver and NVRTC at run time only; the shaders were translated to CUDA C++ by the build
// (tools/msl), and are compiled for the card at hand when they are first used, and kept on disk.
// Shared memory is the host's, pinned and mapped; Private memory is the card's, and what wrap() gives is a copy there.
#pragma once

#include <memory>

#include "backend/gpu/device.h"

namespace swiftlet::gpu {

// The first card, or that of CUDA_VISIBLE_DEVICES. Throws ErrorKind::Input when the driver, a card or NVRTC is missing.
std::unique_ptr<Device> make_cuda_device();

// There is a card that make_cuda_device() would take.
bool cuda_available();

}  // namespace swiftlet::gpu
