// What a command buffer holds once it was encoded, and how it is run.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "device.h"

namespace software_metal {

// An argument of a dispatch: a place in a buffer, or bytes.
struct Argument {
  Buffer* buffer = nullptr;
  size_t offset = 0;
  bool has_bytes = false;
  std::string bytes;

  bool bound() const { return buffer || has_bytes; }
};

struct Dispatch {
  Pipeline* pipeline = nullptr;
  std::array<Argument, kMostBuffers> arguments;
  Size groups{}, group{};
};

struct Commands {
  std::vector<Dispatch> dispatches;
  std::set<Buffer*> used;  // bound, or declared with useResource: those that kernels may reach
};

// Runs the dispatches one after the other. Empty, or what went wrong, which was also reported.
std::string run(const Commands& commands);

}  // namespace software_metal
