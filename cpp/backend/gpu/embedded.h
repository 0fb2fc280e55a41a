// Texts that the build makes from metal/ (tools/msl).
#pragma once

#include <span>
#include <string_view>

namespace swiftlet::gpu {

struct EmbeddedText {
  std::string_view name;  // of the file in metal/, without its extension
  std::string_view text;
};

// The shaders as a Metal compiler takes them.
std::span<const EmbeddedText> shader_texts();
// The shaders as CUDA C++, and "prelude", which goes before each.
std::span<const EmbeddedText> cuda_texts();

}  // namespace swiftlet::gpu
