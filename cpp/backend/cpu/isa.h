// Which kernels this machine can run.
#pragma once

#include <string>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/matmul.h"

namespace swiftlet {

// The kernel of a name from cpu_isas(), or of its first for "auto". Throws ErrorKind::Input for any other name.
MatmulFn matmul_for(const std::string& isa);

}  // namespace swiftlet
