// The backend that computes on a GPU.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/gpu/device.h"
#include "model/config.h"

namespace swiftlet {

// Throws ErrorKind::Input for a model whose dimensions the kernels have no room for.
std::unique_ptr<Backend> make_gpu_backend(const ModelConfig& config, std::unique_ptr<gpu::Device> device);

}  // namespace swiftlet
