#include <setjmp.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include "commands.h"

namespace software_metal {
namespace {

// A kernel that touches what it may not ends in a signal. The handler leaves the kernel, whose fibers are given up, and
// returns to where it was called.
thread_local bool t_running = false;
thread_local sigjmp_buf t_back;
thread_local void* t_fault = nullptr;

void on_fault(int signal, siginfo_t* info, void*) {
  if (!t_running) {  // not ours: let it end the process as usual
    ::signal(signal, SIG_DFL);
    return;
  }
  t_fault = info->si_addr;
  siglongjmp(t_back, 1);
}

void catch_faults() {
  // The stack of a fiber may be what overflowed, so the handler needs another.
  static thread_local std::vector<char> stack(64 << 10);
  const stack_t alternative{stack.data(), 0, stack.size()};
  sigaltstack(&alternative, nullptr);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

std::string run_dispatch(const Dispatch& dispatch) {
  std::array<void*, kMostBuffers> arguments{};
  for (size_t i = 0; i < kMostBuffers; ++i) {
    const Argument& each = dispatch.arguments[i];
    if (each.buffer) arguments[i] = each.buffer->memory->gpu() + each.offset;
    if (each.has_bytes) arguments[i] = const_cast<char*>(each.bytes.data());
  }
  t_running = true;
  std::string error;
  if (sigsetjmp(t_back, 1) == 0) {
    error = dispatch.pipeline->kernel->run(arguments, dispatch.groups, dispatch.group);
  } else {
    std::ostringstream text;
    text << "touched " << t_fault << ", which is in no buffer that it was given: past the end of one, or in one that is"
         << " reached by address and was not declared with useResource";
    error = text.str();
  }
  t_running = false;
  return error;
}

}  // namespace

std::string run(const Commands& commands) {
  catch_faults();
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
