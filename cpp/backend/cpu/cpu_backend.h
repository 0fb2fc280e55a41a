// The CPU backend: SIMD kernels where the machine has them, or the plain f32 reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace swiftlet {

// isa: "auto" (the best of this machine), "reference" (plain f32 loops that read like the formulas), or a name
// from cpu_isas(). threads: 0 = as many as the process may use (affinity and cgroup quota respected).
// Throws ErrorKind::Input for an isa that this machine does not have.
std::unique_ptr<Backend> make_cpu_backend(const ModelConfig& config, int threads, const std::string& isa);

// What make_cpu_backend accepts here, best first, "reference" last.
std::vector<std::string> cpu_isas();

}  // namespace swiftlet
