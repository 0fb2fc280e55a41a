// The memory plan: what the process will hold, and what is left for the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "model/state.h"

namespace swiftlet {

// What the plan is made of. All sizes in bytes.
struct PlanInput {
  uint64_t ceiling = 0;          // asked for by the caller; 0: whatever the machine can spare
  uint64_t available = 0;        // memory the process can still take (only used when ceiling is 0)
  uint64_t process = 0;          // resident set before the model is loaded: interpreter, libraries, tokenizer
  uint64_t resident = 0;         // weights
  uint64_t state_fixed = 0;      // DeltaNet states
  uint64_t state_per_token = 0;  // KV rows
  int64_t context = 0;           // positions; 0: a default
  int64_t max_context = 0;       // what the model was trained for
  int chunk = 0;                 // tokens of a prefill chunk; 0: as many as memory permits
  std::function<uint64_t(int chunk)> scratch;  // of the backend and the engine
  uint64_t slot = 0;                           // of one expert
  uint64_t experts = 0;                        // in the container, all layers
  int experts_per_tok = 0;
  uint64_t max_slots = 0;             // of the pool, whatever else memory would allow; 0: no such bound
  uint64_t host = 0;                  // host memory asked for, for experts beside a device's; 0: none
  uint64_t host_available = 0;        // host memory the process can still take
  uint64_t host_least_slots = 0;      // that reads in flight need of it
  std::optional<uint64_t> snapshots;  // of conversations that make way for others; none: a small part of the ceiling
};

struct MemoryPlan {
  uint64_t ceiling = 0;
  uint64_t process = 0;
  uint64_t overhead = 0;  // allocator, thread stacks, page tables: a reserve
  uint64_t resident = 0;
  uint64_t state = 0;
  uint64_t snapshots = 0;
  uint64_t scratch = 0;
  uint64_t pool = 0;  // a whole number of slots
  uint64_t slots = 0;
  uint64_t slot = 0;
  uint64_t experts = 0;
  uint64_t host = 0;  // host memory for experts, beside the ceiling: a whole number of slots
  uint64_t host_slots = 0;
  uint64_t smallest = 0;  // the least ceiling that works with this context
  int64_t context = 0;
  int chunk = 0;
};

// Adds up everything else and gives the rest to the pool. Throws ErrorKind::Memory, naming the smallest ceiling that
// works, if the rest cannot hold the experts of one token, or if there is not the host memory asked for;
// ErrorKind::Input if the context is beyond the model's.
MemoryPlan make_plan(const PlanInput& input);

// The sum in words, one line an item.
std::string describe(const MemoryPlan& plan);

// "1.23 GB"
std::string format_bytes(uint64_t bytes);

}  // namespace swiftlet
