#include "backend/cpu/cpu_ops.h"

#include "backend/cpu/isa.h"

namespace swiftlet {

const CpuOps& ops_for(const std::string& isa) {
  matmul_for(isa);
  return reference_ops;
}

}  // namespace swiftlet
