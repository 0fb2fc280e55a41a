// Which backends there are, and one by its name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/gpu/device.h"

namespace swiftlet {

// Backends of this build that work on this machine, the best first. "emulated" exists in builds for tests only, and
// comes last.
std::vector<std::string> backend_names();

struct BackendOptions {
  std::string name = "auto";  // or one of backend_names(); "auto" is the first of them
  int threads = 0;            // CPU: compute threads; 0: as many as the process may use
  std::string isa = "auto";   // CPU: see make_cpu_backend
};

// Throws ErrorKind::Input for a backend that this build or machine does not have, saying why.
std::unique_ptr<Backend> make_backend(const ModelConfig& config, const BackendOptions& options);

// The device of a GPU backend, for benchmarks and tests.
std::unique_ptr<gpu::Device> make_gpu_device(const std::string& name);

}  // namespace swiftlet
