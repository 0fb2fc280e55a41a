#include "backend/gpu/shaders.h"

#include "backend/gpu/embedded.h"
#include "base/error.h"

namespace swiftlet::gpu {

std::string_view shader_source(std::string_view file) {
  for (const EmbeddedText& shader : shader_texts())
    if (shader.name == file) return shader.text;
  fail(ErrorKind::Input, "there is no shader ", file, ".metal");
}

}  // namespace swiftlet::gpu
