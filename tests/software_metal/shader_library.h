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
  bool by_value;  // constant T&: set with setBytes
  bool written;   // a pointer to what is not const
};

// Function constants by index: their MTLDataType and bytes.
struct ConstantValue {
  size_t type;
  std::string bytes;
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
  // Null, and why, if a function constant is missing or of another type.
  virtual std::shared_ptr<CompiledKernel> kernel(const std::string& name, const Constants& constants,
                                                 std::string& error) = 0;
};

// Null, and the compiler's messages, if the source is wrong. Compiled libraries are kept in a folder of the build,
// named by what they were made of.
std::shared_ptr<ShaderLibrary> compile_shaders(const std::string& source, std::string& error);

}  // namespace software_metal
