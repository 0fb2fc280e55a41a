// The objects that a device makes.
#pragma once

#include <memory>
#include <string>

#include "gpu_memory.h"
#include "runtime.h"
#include "shader_library.h"

namespace software_metal {

struct Buffer : Object {
  Buffer(std::unique_ptr<GpuMemory> pages, size_t length)
      : Object("MTLBuffer"), memory(std::move(pages)), bytes(length) {}
  void dispose() override { memory.reset(); }
  std::unique_ptr<GpuMemory> memory;
  size_t bytes;
};

struct Pipeline : Object {
  Pipeline(std::shared_ptr<CompiledKernel> compiled, std::string function)
      : Object("MTLComputePipelineState"), kernel(std::move(compiled)), name(std::move(function)) {}
  void dispose() override { kernel.reset(); }
  std::shared_ptr<CompiledKernel> kernel;
  std::string name;
};

Object* make_queue(size_t most_command_buffers);  // commands.cpp

}  // namespace software_metal
