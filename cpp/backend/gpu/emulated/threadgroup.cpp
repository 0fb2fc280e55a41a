#include "backend/gpu/emulated/threadgroup.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <sstream>
#include <vector>

#include "base/error.h"

// Saves the registers that a function must keep and the stack pointer, and goes on where another fiber did the same.
extern "C" void swiftlet_switch_fiber(void** save_stack_pointer, void* load_stack_pointer);
#if defined(__APPLE__)
#define SYMBOL "_swiftlet_switch_fiber"
#else
#define SYMBOL "swiftlet_switch_fiber"
#endif
#if defined(__x86_64__)
asm(".text\n"
    ".p2align 4\n"
    ".globl " SYMBOL "\n" SYMBOL
    ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");
#elif defined(__aarch64__)
asm(".text\n"
    ".p2align 4\n"
    ".globl " SYMBOL "\n" SYMBOL
    ":\n"
    "  stp x19, x20, [sp, #-160]!\n"
    "  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  ldp x19, x20, [sp], #160\n"
    "  ret\n");
#else
#error "the emulated GPU needs a fiber switch for this processor"
#endif

namespace swiftlet::gpu::emulated {
namespace {

constexpr size_t kLanes = 32;
// Not a power of two: the tops of the stacks must not share the same sets of the cache.
constexpr size_t kStackBytes = (64 << 10) + 1088;
constexpr size_t kAlternateStackBytes = 64 << 10;
constexpr size_t kThreadgroupMemory = 32 << 10;  // what Apple GPUs have

enum class State : uint8_t { Ready, AtSimdOperation, AtBarrier, Done };

struct Fiber {
  void* stack_pointer;
  State state;
  uint32_t operations;  // SIMD operations so far
  const char* what;     // the operation that it waits at
  Where where;
};

struct SimdGroup {
  Exchange exchanges[2];  // by turns: a lane is at most one operation ahead of another
};

// The threadgroup that runs on this OS thread.
struct Team : Threadgroup {
  const GroupRun* run = nullptr;
  std::vector<Fiber> fibers;
  std::vector<SimdGroup> simd_groups;
  std::byte* stacks = nullptr;
  size_t stack_count = 0;
  void* scheduler = nullptr;  // its stack pointer while a fiber runs
  bool in_fiber = false;
  std::string problem;      // set by a thread that cannot go on
  uint64_t run_number = 0;  // of threadgroups on this OS thread
  size_t threadgroup_bytes = 0;
  sigjmp_buf after_fault;
  uintptr_t fault_address = 0;
  int fault_signal = 0;
  std::unique_ptr<std::byte[]> alternate_stack;  // for the fault handler: a fiber's own may be what faulted

  Team() : Threadgroup{}, alternate_stack(new std::byte[kAlternateStackBytes]) {}
  ~Team() {
    if (stacks) munmap(stacks, stack_count * kStackBytes);
  }
};

thread_local Team* running = nullptr;  // while run_threadgroup is on this OS thread

Team& team() { return *running; }

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
struct sigaction previous_handlers[std::size(kFaults)];

void on_fault(int signal, siginfo_t* info, void*) {
  if (running && running->in_fiber) {
    running->in_fiber = false;
    running->fault_address = reinterpret_cast<uintptr_t>(info->si_addr);
    running->fault_signal = signal;
    siglongjmp(running->after_fault, 1);
  }
  // Not ours: the instruction runs again under the handler that was there before.
  for (size_t i = 0; i < std::size(kFaults); ++i)
    if (kFaults[i] == signal) sigaction(signal, &previous_handlers[i], nullptr);
}

std::string place(const Where& where) { return std::string(where.file) + ":" + std::to_string(where.line); }

std::string kernel_at(const Team& t, const Where& where) {
  std::ostringstream out;
  const KernelInfo& kernel = *t.run->kernel;
  if (where.file)
    out << place(where);
  else
    out << kernel.file << ":" << kernel.line;
  out << ": kernel " << kernel.name << " (threadgroup " << t.position.x << ", " << t.position.y << ", " << t.position.z
      << ")";
  return out.str();
}

void to_scheduler(Team& t) {
  const uint32_t me = t.thread;
  swiftlet_switch_fiber(&t.fibers[me].stack_pointer, t.scheduler);
}

[[noreturn]] void give_up(Team& t, const std::string& problem) {
  t.problem = problem;
  to_scheduler(t);
  std::abort();  // a thread that gave up is never resumed
}

[[noreturn]] void fiber_main() {
  Team& t = team();
  t.run->kernel->run(*t.run->args);
  t.fibers[t.thread].state = State::Done;
  to_scheduler(t);
  std::abort();
}

void block(State state, const char* what, const Where& where) {
  Team& t = team();
  Fiber& fiber = t.fibers[t.thread];
  fiber.state = state;
  fiber.what = what;
  fiber.where = where;
  to_scheduler(t);
}

void prepare(Team& t) {
  if (t.threads > t.stack_count) {
    if (t.stacks) munmap(t.stacks, t.stack_count * kStackBytes);
    void* p = mmap(nullptr, t.threads * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t.stacks = p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
    t.stack_count = t.stacks ? t.threads : 0;
    if (!t.stacks) fail(ErrorKind::Memory, "no memory for the stacks of the emulated GPU");
  }
  t.fibers.resize(t.threads);
  t.simd_groups.resize(t.threads / kLanes);
  for (uint32_t i = 0; i < t.threads; ++i) {
    const uintptr_t end = reinterpret_cast<uintptr_t>(t.stacks + (i + 1) * kStackBytes);
    void** top = reinterpret_cast<void**>((end - 64) & ~uintptr_t{63});
    // What swiftlet_switch_fiber takes off the stack: registers, and where to go on.
#if defined(__x86_64__)
    *--top = nullptr;  // as if fiber_main had been called: aligned so
    *--top = reinterpret_cast<void*>(&fiber_main);
    for (int r = 0; r < 6; ++r) *--top = nullptr;
#else
    for (int r = 0; r < 20; ++r) *--top = nullptr;
    top[11] = reinterpret_cast<void*>(&fiber_main);  // x30
#endif
    t.fibers[i] = {top, State::Ready, 0, nullptr, {}};
  }
  t.problem.clear();
  ++t.run_number;
  t.threadgroup_bytes = 0;
}

// Runs a thread until it waits or is done.
void resume(Team& t, uint32_t thread) {
  t.thread = thread;
  t.in_fiber = true;
  swiftlet_switch_fiber(&t.scheduler, t.fibers[thread].stack_pointer);
  t.in_fiber = false;
  if (!t.problem.empty()) throw Error(ErrorKind::Numeric, t.problem);
}

// Runs a SIMD group until all its threads are at a barrier or done.
void run_simd_group(Team& t, uint32_t group) {
  const uint32_t first = group * kLanes;
  for (;;) {
    for (uint32_t k = 0; k < kLanes; ++k) {
      const uint32_t i = first + (t.run->backwards ? kLanes - 1 - k : k);
      if (t.fibers[i].state == State::Ready) resume(t, i);
    }
    const Fiber* operation = nullptr;
    for (uint32_t i = first; i < first + kLanes && !operation; ++i)
      if (t.fibers[i].state == State::AtSimdOperation) operation = &t.fibers[i];
    if (!operation) return;
    for (uint32_t i = first; i < first + kLanes; ++i) {
      const Fiber& fiber = t.fibers[i];
      const bool same = fiber.state == State::AtSimdOperation && fiber.where.line == operation->where.line &&
                        std::strcmp(fiber.where.file, operation->where.file) == 0 &&
                        std::strcmp(fiber.what, operation->what) == 0;
      if (!same)
        fail(ErrorKind::Numeric, kernel_at(t, operation->where), ": ", operation->what,
             " is not reached by all lanes of its SIMD group: lane ", i - first,
             fiber.state == State::Done ? " has returned" : " is at " + place(fiber.where));
    }
    for (uint32_t i = first; i < first + kLanes; ++i) t.fibers[i].state = State::Ready;
  }
}

// After a turn of all SIMD groups. Returns whether the threadgroup is done.
bool pass_barrier(Team& t) {
  const Fiber& first = t.fibers[0];
  for (uint32_t i = 0; i < t.threads; ++i) {
    const Fiber& fiber = t.fibers[i];
    if (fiber.state == first.state && (first.state == State::Done || fiber.where.line == first.where.line)) continue;
    const Fiber& waiting = fiber.state == State::AtBarrier ? fiber : first;
    const Fiber& other = fiber.state == State::AtBarrier ? first : fiber;
    fail(ErrorKind::Numeric, kernel_at(t, waiting.where), ": threadgroup_barrier is not reached by all threads: ",
         other.state == State::Done ? "one has returned" : "one is at ",
         other.state == State::Done ? "" : place(other.where));
  }
  if (first.state == State::Done) return true;
  for (uint32_t i = 0; i < t.threads; ++i) t.fibers[i].state = State::Ready;
  return false;
}

}  // namespace

FaultHandler::FaultHandler() {
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (size_t i = 0; i < std::size(kFaults); ++i) sigaction(kFaults[i], &action, &previous_handlers[i]);
}

FaultHandler::~FaultHandler() {
  for (size_t i = 0; i < std::size(kFaults); ++i) sigaction(kFaults[i], &previous_handlers[i], nullptr);
}

const Threadgroup& current() { return team(); }

void barrier(Where where) { block(State::AtBarrier, "threadgroup_barrier", where); }

Exchange& exchange(uint64_t value, const char* what, Where where) {
  Team& t = team();
  const uint32_t me = t.thread;
  Exchange& exchange = t.simd_groups[me / kLanes].exchanges[t.fibers[me].operations++ & 1];
  exchange.values[me % kLanes] = value;
  exchange.reduced = false;
  block(State::AtSimdOperation, what, where);
  return exchange;
}

void declare_threadgroup_memory(uint64_t* run, void* memory, size_t bytes) {
  Team& t = team();
  if (*run == t.run_number) return;
  *run = t.run_number;
  t.threadgroup_bytes += bytes;
  if (t.threadgroup_bytes > kThreadgroupMemory)
    give_up(t, kernel_at(t, {}) + ": takes more than " + std::to_string(kThreadgroupMemory) +
                   " bytes of threadgroup memory");
  std::memset(memory, 0xff, bytes);
}

uint32_t function_constant(const FunctionConstant& constant) {
  if (!constant.set) give_up(team(), kernel_at(team(), {}) + ": function constant " + constant.name + " is not set");
  return constant.value;
}

void run_threadgroup(const GroupRun& run, Uint3 position) {
  static thread_local Team instance;
  Team& t = instance;
  running = &instance;
  t.run = &run;
  t.position = position;
  t.groups = run.groups;
  t.threads = run.threads;
  stack_t stack{};
  stack.ss_sp = t.alternate_stack.get();
  stack.ss_size = kAlternateStackBytes;
  sigaltstack(&stack, nullptr);
  prepare(t);
  const uint32_t groups = t.threads / kLanes;
  if (sigsetjmp(t.after_fault, 0) != 0) {  // a thread faulted: the others are abandoned with it
    const Where& passed = t.fibers[t.thread].where;
    const std::string kernel = kernel_at(t, {}) + (passed.file ? ", after " + place(passed) : "");
    if (t.fault_signal == SIGFPE) fail(ErrorKind::Numeric, kernel, ": an integer division by zero");
    if (t.fault_signal == SIGILL || t.fault_signal == SIGTRAP)
      fail(ErrorKind::Numeric, kernel, ": an access to a misaligned address");
    throw AccessFault{t.fault_address, kernel};
  }
  do {
    for (uint32_t g = 0; g < groups; ++g) run_simd_group(t, run.backwards ? groups - 1 - g : g);
  } while (!pass_barrier(t));
}

}  // namespace swiftlet::gpu::emulated
