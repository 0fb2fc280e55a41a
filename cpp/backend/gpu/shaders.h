// The text of the shaders in metal/, part of the library since the build.
#pragma once

#include <string_view>

namespace swiftlet::gpu {

// The source of metal/<file>.metal with the headers of metal/ that it includes put in their places (once each, with
// #line directives, so that messages name the file and line). Throws ErrorKind::Input for a name that does not exist.
std::string_view shader_source(std::string_view file);

}  // namespace swiftlet::gpu
