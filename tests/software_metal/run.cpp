#include "commands.h"

namespace software_metal {
namespace {

std::string run_dispatch(const Dispatch& dispatch) {
  std::array<void*, kMostBuffers> arguments{};
  for (size_t i = 0; i < kMostBuffers; ++i) {
    const Argument& each = dispatch.arguments[i];
    if (each.buffer) arguments[i] = each.buffer->memory->gpu() + each.offset;
    if (each.has_bytes) arguments[i] = const_cast<char*>(each.bytes.data());
  }
  return dispatch.pipeline->kernel->run(arguments, dispatch.groups, dispatch.group);
}

}  // namespace

std::string run(const Commands& commands) {
  for (const Buffer* each : commands.used)
    if (each->references <= 0) {
      const std::string what = "a buffer was released before the commands that use it had run";
      report(what);
      return what;
    }
  for (const Buffer* each : commands.used) each->memory->open();
  std::string error;
  for (const Dispatch& each : commands.dispatches) {
    error = run_dispatch(each);
    if (error.empty()) continue;
    error = each.pipeline->name + ": " + error;
    report(error);
    break;
  }
  for (const Buffer* each : commands.used) each->memory->close();
  return error;
}

}  // namespace software_metal
