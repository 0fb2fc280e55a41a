// A GPU in software, for tests: runs the shaders of metal/, translated to C++ by tools/msl, and refuses what a real GPU
// would let pass or answer with garbage. It finds
//   - SIMD operations and barriers that not all threads reach, threads that return before one,
//   - missing threadgroup barriers (run it in both orders and compare), threadgroup memory read before it is written
//   (NaN),
//   - missing barriers between dispatches, and memory given back, read or written by the CPU while dispatches use it,
//   - accesses outside of a buffer, unset function constants, bindings that do not fit the kernel's parameters.
// Private memory cannot be seen by the CPU. Host errors are thrown by the call, those of a kernel by wait().
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>

#include "backend/gpu/device.h"
#include "backend/gpu/emulated/kernel.h"

namespace swiftlet::gpu {

// Two extremes of what a GPU may do.
enum class Order : uint8_t {
  Forwards,   // threads take turns in ascending order; work is done by commit()
  Backwards,  // descending, and the same for dispatches without a barrier between them; by wait()
};

struct EmulatedOptions {
  Order order = Order::Forwards;
  bool matrix_units = true;                             // what Device::matrix_units() says
  bool own_memory = false;                              // a card with memory of its own
  int threads = 2;                                      // of the CPU, for threadgroups
  std::span<const emulated::Library* const> more = {};  // shaders beside those of metal/
};

std::unique_ptr<Device> make_emulated_device(const EmulatedOptions& options = {});

// What the environment variable SWIFTLET_EMULATED_ORDER asks for: "forwards" (default), or "backwards", then also
// without matrix units. Throws ErrorKind::Input for another value. With SWIFTLET_EMULATED_CARD it has its own memory.
EmulatedOptions emulated_options();

// All kernels of metal/, as "file.name".
std::set<std::string> emulated_kernels();
// What devices ran since the process began: kernels and their function constants, as "file.name index=value ..".
std::set<std::string> emulated_pipelines_run();

}  // namespace swiftlet::gpu
