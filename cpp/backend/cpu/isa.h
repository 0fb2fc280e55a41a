// Which instruction sets this machine has.
#pragma once

#include <string>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_ops.h"

namespace swiftlet {

// The table of a name from cpu_isas(), or of its first for "auto". Throws ErrorKind::Input for any other name.
const CpuOps& ops_for(const std::string& isa);

}  // namespace swiftlet
