// What the GPU backend needs of a GPU: memory, pipelines, and one stream of dispatches. metal_device (Apple) and
// cuda_device (NVIDIA) implement it, and in tests emulated_device, which runs the same shaders on the CPU.
//
// Kernels are named by the file in metal/ that holds them and by their name there. A kernel takes its buffers at the
// indices 0, 1, .. and, after the last of them, one struct of arguments by value (metal/kernel_args.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace swiftlet::gpu {

enum class Placement : uint8_t {
  Shared,   // the CPU reads and writes it too, at host()
  Private,  // of the GPU; the same as Shared where both use one memory
};

// Memory that kernels can use. Its owner has waited for the dispatches that use it before it goes.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual size_t bytes() const = 0;
  virtual std::byte* host() const = 0;   // null where the CPU cannot see it
  virtual uint64_t address() const = 0;  // for tables of pointers that kernels follow
};

// A buffer argument: a place in a memory. `written`: the kernel writes to it.
struct Binding {
  const Memory* memory;
  uint64_t offset = 0;
  bool written = false;
};

// A function constant of a kernel; all of ours are uint.
struct Constant {
  uint32_t index;
  uint32_t value;
};

struct Kernel {
  const char* file;  // in metal/, without its extension
  const char* name;
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;
};

// What does not vary from run to run.
struct Counters {
  uint64_t dispatches = 0;
  uint64_t commits = 0;  // that began something
  uint64_t waits = 0;    // of the CPU for the GPU: for tickets that had not been waited for
};

// All methods are called by the thread that computes, unless they say otherwise.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string description() const = 0;  // "metal (Apple M3)"
  virtual bool matrix_units() const = 0;        // simdgroup_matrix is worth using
  // Of a card with memory of its own: its bytes that this process holds beside what it allocates here, and that it
  // could still allocate. Nothing where CPU and GPU share one memory.
  struct OwnMemory {
    uint64_t overhead, available;
  };
  virtual std::optional<OwnMemory> own_memory() const { return {}; }

  // Zeroed memory. Throws ErrorKind::Memory. From any thread.
  virtual std::unique_ptr<Memory> allocate(size_t bytes, Placement placement) = 0;
  // The caller's memory, whole pages, as kernels see it: without a copy where CPU and GPU share memory, else a copy as
  // it is now. From any thread. Throws ErrorKind::Memory.
  virtual std::unique_ptr<Memory> wrap(const std::byte* base, size_t bytes) = 0;
  // Between memory and the CPU; the caller has waited for what was queued and uses it. For memory without host().
  virtual void read(const Memory& from, uint64_t offset, void* to, size_t bytes) = 0;
  virtual void write(Memory& to, uint64_t offset, const void* from, size_t bytes) = 0;
  virtual void clear(Memory& memory) = 0;

  // Beside what is queued, from any thread, for memory that nothing queued uses; return when it is done. Only with
  // own_memory().
  virtual std::shared_ptr<std::byte> staging(size_t /*bytes*/) { return nullptr; }  // host memory for the next two
  virtual void upload(const Memory& /*to*/, uint64_t /*offset*/, const std::byte* /*from*/, size_t /*bytes*/) {}
  virtual void download(const Memory& /*from*/, uint64_t /*offset*/, std::byte* /*to*/, size_t /*bytes*/) {}
  virtual void copy(const Memory& /*to*/, uint64_t /*to_offset*/, const Memory& /*from*/, uint64_t /*from_offset*/,
                    size_t /*bytes*/) {}

  // A kernel specialised for the constants; compiled on first use and kept. Every function constant of its file that
  // the kernel uses must be given. Throws ErrorKind::Input with the compiler's message, its file and line.
  virtual const Pipeline& pipeline(const Kernel& kernel, std::span<const Constant> constants) = 0;

  // Queues `groups` threadgroups of `threads` threads (a multiple of 32, at most 1024). `arguments`: the struct that
  // the kernel takes after its buffers, at most 256 bytes, copied.
  virtual void dispatch(const Pipeline& pipeline, std::span<const Binding> buffers, const void* arguments,
                        size_t argument_bytes, Grid groups, uint32_t threads) = 0;
  // What is queued after it sees all writes of what was queued before it; without one, dispatches may overlap.
  virtual void barrier() = 0;
  // Kernels queued until the next commit() follow addresses into this memory.
  virtual void use(const Memory& memory) = 0;

  // Begins what was queued; what this returns can be waited for. Tickets ascend; with nothing queued it is the last
  // one.
  virtual uint64_t commit() = 0;
  // Returns when everything committed up to that ticket is done. Throws ErrorKind::Numeric if the GPU failed.
  virtual void wait(uint64_t ticket) = 0;

  virtual Counters counters() const = 0;  // since it was made
};

}  // namespace swiftlet::gpu
