// Shaders compiled for the CPU with tools/msl.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace software_metal {

constexpr size_t kMostBuffers = 31;

struct Size {  // MTLSize
  size_t width, height, depth;
};

struct Parameter {
  size_t index;
  size_t bytes;  // constant T&: size of what setBytes must set; 0: a buffer
  bool written;  // a pointer to what is not const
};

constexpr size_t kUIntType = 33;  // MTLDataTypeUInt

// Function constants by index. All of ours are uint; the value of another type is not kept.
struct ConstantValue {
  size_t type;
  uint32_t value;
};
using Constants = std::map<size_t, ConstantValue>;

class CompiledKernel {
 public:
  virtual ~CompiledKernel() = default;
  virtual const std::vector<Parameter>& parameters() const = 0;
  // Runs all threads. Empty, or what the emulation found wrong.
  virtual std::string run(const std::array<void*, kMostBuffers>& arguments, Size groups, Size group) = 0;
};

class ShaderLibrary {
 public:
  virtual ~ShaderLibrary() = default;
  virtual bool has(const std::string& kernel) const = 0;
  // Null, and why, if a function constant is of another type. A missing one is found when the kernel uses it.
  virtual std::shared_ptr<CompiledKernel> kernel(const std::string& name, const Constants& constants,
                                                 std::string& error) = 0;
};

// Null, and the compiler's messages, if the source is wrong. What was compiled is kept in a folder of the build, named
// by the source.
std::shared_ptr<ShaderLibrary> compile_shaders(const std::string& source, std::string& error);

}  // namespace software_metal
