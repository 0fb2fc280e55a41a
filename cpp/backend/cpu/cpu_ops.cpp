#include "backend/cpu/cpu_ops.h"

#include "backend/cpu/isa.h"

namespace swiftlet {

const CpuOps& ops_for(const std::string& isa) {
  const MatmulFn matmul = matmul_for(isa);  // knows the names, and what this machine has
  for (const CpuOps* ops : {
#if defined(__x86_64__)
           &amx_ops,
           &avx512vnni_ops,
           &avx512_ops,
           &avxvnni_ops,
           &avx2_ops,
#elif defined(__aarch64__)
           &dotprod_ops,
           &neon_ops,
#endif
       })
    if (ops->matmul == matmul) return *ops;
  return reference_ops;
}

}  // namespace swiftlet
