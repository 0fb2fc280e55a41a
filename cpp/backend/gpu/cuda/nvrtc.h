// NVIDIA's run-time compiler, opened at run time: from the file or folder that SWIFTLET_NVRTC names (the Python package
// sets it to the one of nvidia-cuda-nvrtc), else from where the system finds libraries.
#pragma once

#include <string>
#include <vector>

namespace swiftlet::gpu::cuda {

// Such as "13.5". Throws ErrorKind::Input when there is no NVRTC, or one before 12.8.
std::string nvrtc_version();

// CUDA C++ to machine code (a cubin). `name`: what messages call the source. Throws ErrorKind::Input with the
// compiler's messages.
std::string compile(const std::string& source, const std::string& name, const std::vector<std::string>& options);

}  // namespace swiftlet::gpu::cuda
