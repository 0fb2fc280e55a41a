// Compiled kernels on disk: $XDG_CACHE_HOME/swiftlet or ~/.cache/swiftlet. A cache only: when it cannot be read or
// written, kernels are compiled again.
#pragma once

#include <optional>
#include <string>

namespace swiftlet::gpu::cuda {

// `key`: everything that the result depends on; files are named by its hash.
std::optional<std::string> load_kernel(const std::string& key);
void store_kernel(const std::string& key, const std::string& code);

}  // namespace swiftlet::gpu::cuda
