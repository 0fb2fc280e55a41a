#include "engine/plan.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "base/error.h"

namespace swiftlet {
namespace {

constexpr int64_t kDefaultContext = 8192;
constexpr int kSmallestChunk = 32, kLargestChunk = 2048;
// Allocator slack, thread stacks and page tables (1/512 of what is mapped): measured, see docs/experiments.md.
constexpr uint64_t kOverhead = uint64_t(32) << 20;
// A chunk may take this part of what is left after weights and states: the rest is worth more as pool.
constexpr uint64_t kScratchShare = 8;
// Without a ceiling: this much of the available memory stays with the system.
constexpr uint64_t kSystemShare = 4, kSystemLeast = uint64_t(1) << 30;

// Snapshots take this part of what a ceiling leaves above the smallest, and at least two DeltaNet states unless that is
// more than the second part; beyond all experts, what is left; and never more than a few whole conversations.
constexpr uint64_t kSnapshotShare = 16, kSnapshotLimit = 8, kConversations = 4;

uint64_t default_snapshots(const PlanInput& in, uint64_t state, uint64_t above_smallest, uint64_t above_all) {
  const uint64_t least = std::min(2 * in.state_fixed, above_smallest / kSnapshotLimit);
  return std::min(std::max({above_smallest / kSnapshotShare, least, above_all}), kConversations * state);
}

uint64_t default_ceiling(const PlanInput& in) {
  const uint64_t spared = std::max(in.available / kSystemShare, std::min(kSystemLeast, in.available / 2));
  return in.process + in.available - spared;
}

void plan_host_memory(const PlanInput& in, MemoryPlan& plan) {
  if (!in.host || !in.slot) return;
  if (in.host / in.slot < in.host_least_slots)
    fail(ErrorKind::Memory, "host_memory ", format_bytes(in.host), " is too small: reads in flight need ",
         format_bytes(in.host_least_slots * in.slot), " of it; give more, or none");
  plan.host_slots = std::min(in.host / in.slot, in.experts + in.host_least_slots);
  plan.host = plan.host_slots * in.slot;
  if (plan.host > in.host_available)
    fail(ErrorKind::Memory, "host_memory ", format_bytes(plan.host), " is more than the ",
         format_bytes(in.host_available), " that the machine can spare; give less");
}

}  // namespace

MemoryPlan make_plan(const PlanInput& in) {
  MemoryPlan plan;
  plan.process = in.process;
  plan.resident = in.resident;
  plan.slot = in.slot;
  plan.experts = in.experts;
  plan.overhead = kOverhead;
  plan.context = in.context ? in.context : std::min(in.max_context, kDefaultContext);
  if (plan.context < 1 || plan.context > in.max_context)
    fail(ErrorKind::Input, "context ", plan.context, " must lie between 1 and the model's ", in.max_context);
  plan.state = in.state_fixed + in.state_per_token * uint64_t(plan.context);

  const uint64_t least_slots = std::min<uint64_t>(in.experts, uint64_t(in.experts_per_tok));
  uint64_t fixed = plan.process + plan.overhead + plan.resident + plan.state + in.snapshots.value_or(0);
  const int least_chunk = in.chunk ? in.chunk : int(std::min<int64_t>(kSmallestChunk, plan.context));
  plan.smallest = fixed + in.scratch(least_chunk) + least_slots * in.slot;

  const uint64_t all = fixed + in.scratch(in.chunk ? in.chunk : kLargestChunk) + in.experts * in.slot;
  const uint64_t most = all + (in.snapshots ? 0 : kConversations * plan.state);
  plan.ceiling = in.ceiling ? in.ceiling : std::max(plan.smallest, std::min(default_ceiling(in), most));
  if (plan.ceiling < plan.smallest)
    fail(ErrorKind::Memory, "memory ", format_bytes(plan.ceiling),
         " is too small: the smallest that works with a context of ", plan.context, " is ", format_bytes(plan.smallest),
         " (process ", format_bytes(plan.process + plan.overhead), ", weights ", format_bytes(plan.resident),
         ", state ", format_bytes(plan.state + in.snapshots.value_or(0)), ", scratch ",
         format_bytes(in.scratch(least_chunk)), ", ", least_slots, " experts ", format_bytes(least_slots * in.slot),
         "); give more memory or a shorter context");

  const uint64_t above_all = plan.ceiling > all ? plan.ceiling - all : 0;
  plan.snapshots =
      in.snapshots ? *in.snapshots : default_snapshots(in, plan.state, plan.ceiling - plan.smallest, above_all);
  if (!in.snapshots) fixed += plan.snapshots;

  plan.chunk = least_chunk;
  if (!in.chunk) {
    const uint64_t rest = plan.ceiling - fixed;
    for (int chunk = kLargestChunk; chunk > least_chunk; chunk /= 2) {
      if (in.scratch(chunk) > rest / kScratchShare || chunk / 2 >= plan.context) continue;
      plan.chunk = chunk;
      break;
    }
  }
  plan.scratch = in.scratch(plan.chunk);
  if (in.max_slots && in.max_slots < least_slots)
    fail(ErrorKind::Memory, "a pool of ", in.max_slots, " slots cannot hold the ", least_slots,
         " experts of one token");
  if (in.slot) plan.slots = std::min(in.experts, (plan.ceiling - fixed - plan.scratch) / in.slot);
  if (in.max_slots) plan.slots = std::min(plan.slots, in.max_slots);
  plan.pool = plan.slots * in.slot;
  plan_host_memory(in, plan);
  return plan;
}

std::string format_bytes(uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed;
  if (bytes >= 1000000000)
    text << std::setprecision(2) << double(bytes) / 1e9 << " GB";
  else if (bytes >= 1000000)
    text << std::setprecision(1) << double(bytes) / 1e6 << " MB";
  else
    text << std::setprecision(1) << double(bytes) / 1e3 << " kB";
  return text.str();
}

std::string describe(const MemoryPlan& p) {
  std::ostringstream text;
  const auto line = [&](const char* what, uint64_t bytes, const std::string& note) {
    text << std::left << std::setw(18) << what << std::right << std::setw(10) << format_bytes(bytes)
         << (note.empty() ? "" : "  ") << note << "\n";
  };
  line("process", p.process, "interpreter, libraries, tokenizer");
  line("overhead", p.overhead, "allocator, stacks");
  line("resident weights", p.resident, "");
  line("state", p.state, "context of " + std::to_string(p.context));
  line("snapshots", p.snapshots, "states of other conversations and of earlier turns");
  line("scratch", p.scratch, "prefill chunks of " + std::to_string(p.chunk));
  line("expert pool", p.pool,
       std::to_string(p.slots) + " of " + std::to_string(p.experts) + " experts, " + format_bytes(p.slot) + " each");
  if (p.host)
    line("host memory", p.host, std::to_string(p.host_slots) + " slots for experts, beside the ceiling of the card");
  line("ceiling", p.ceiling, "smallest that works: " + format_bytes(p.smallest));
  return text.str();
}

}  // namespace swiftlet
