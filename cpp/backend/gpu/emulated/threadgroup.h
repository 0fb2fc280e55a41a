// Runs the threads of a threadgroup as fibers on one OS thread. A thread runs until a barrier or a SIMD operation, then
// the next one has its turn; so two orders of the threads show what a missing barrier would do.
#pragma once

#include <cstdint>
#include <string>

#include "backend/gpu/emulated/kernel.h"

namespace swiftlet::gpu::emulated {

struct Uint3 {
  uint32_t x, y, z;
};

// A place in a shader.
struct Where {
  const char* file = nullptr;
  int line = 0;
};

// What a running thread can ask.
struct Threadgroup {
  Uint3 position, groups;
  uint32_t threads;  // in the group, a multiple of 32
  uint32_t thread;   // the one that runs
};

// A SIMD operation: what its 32 lanes handed in, and room for a result that is the same for all.
struct Exchange {
  uint64_t values[32];
  uint64_t result;
  bool reduced;
};

// For the threads, called by translated shaders.
const Threadgroup& current();
void barrier(Where where);
// Returns when all lanes of the SIMD group are there; valid until the lane's next but one operation. `what`: its name.
Exchange& exchange(uint64_t value, const char* what, Where where);
// Fills threadgroup memory with NaN when the first thread of a group comes to its declaration. `run`: a variable beside
// it.
void declare_threadgroup_memory(uint64_t* run, void* memory, size_t bytes);
uint32_t function_constant(const FunctionConstant& constant);

// A kernel that touched memory that is not there.
struct AccessFault {
  uintptr_t address;
  std::string kernel;  // and the place that its thread passed last
};

struct GroupRun {
  const KernelInfo* kernel;
  const Args* args;
  Uint3 groups;
  uint32_t threads;
  bool backwards;  // threads and SIMD groups take turns in descending order
};

// While one exists, threads of kernels that fault end their threadgroup instead of the process. One at a time.
class FaultHandler {
 public:
  FaultHandler();
  ~FaultHandler();
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;
};

// Runs one threadgroup, under a FaultHandler. Throws ErrorKind::Numeric when its threads part ways at a barrier or SIMD
// operation and the like, AccessFault when one touches memory outside of all buffers.
void run_threadgroup(const GroupRun& run, Uint3 position);

}  // namespace swiftlet::gpu::emulated
