#include "backend/backends.h"

#include <algorithm>
#include <span>

#include "backend/cpu/cpu_backend.h"
#ifdef SWIFTLET_CUDA
#include "backend/gpu/cuda/cuda_device.h"
#endif
#include "backend/gpu/gpu_backend.h"
#include "base/error.h"
#ifdef SWIFTLET_EMULATED_GPU
#include "backend/gpu/emulated/emulated_device.h"
#endif
#ifdef SWIFTLET_METAL
#include "backend/gpu/metal/metal_device.h"
#endif

namespace swiftlet {
namespace {

// A kind of GPU that this build knows.
struct Gpu {
  const char* name;
  bool (*available)();
  std::unique_ptr<gpu::Device> (*make)();
};

constexpr Gpu kGpus[] = {
#ifdef SWIFTLET_CUDA
    {"cuda", gpu::cuda_available, gpu::make_cuda_device},
#endif
#ifdef SWIFTLET_METAL
    {"metal", gpu::metal_available, gpu::make_metal_device},
#endif
#ifdef SWIFTLET_EMULATED_GPU
    {"emulated", [] { return true; }, [] { return gpu::make_emulated_device(gpu::emulated_options()); }},
#endif
    {nullptr, nullptr, nullptr},  // the end
};

bool is_real(const Gpu& gpu) { return std::string(gpu.name) != "emulated"; }

std::span<const Gpu> gpus() { return std::span(kGpus).first(std::size(kGpus) - 1); }

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Gpu& gpu : gpus())
    if (is_real(gpu) && gpu.available()) names.push_back(gpu.name);
  names.push_back("cpu");
  for (const Gpu& gpu : gpus())
    if (!is_real(gpu)) names.push_back(gpu.name);
  return names;
}

std::unique_ptr<gpu::Device> make_gpu_device(const std::string& name) {
  for (const Gpu& gpu : gpus())
    if (name == gpu.name) return gpu.make();  // which says what is missing
  fail(ErrorKind::Input, "there is no backend \"", name, "\" here: choose auto or one of ", list(backend_names()));
}

std::unique_ptr<Backend> make_backend(const ModelConfig& config, const BackendOptions& options) {
  const std::string name = options.name == "auto" ? backend_names().front() : options.name;
  if (name == "cpu") return make_cpu_backend(config, options.threads, options.isa);
  return make_gpu_backend(config, make_gpu_device(name));
}

}  // namespace swiftlet
