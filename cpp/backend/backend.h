// The blocks a layer needs. A backend computes; it knows nothing of files, sessions or policies.
//
// One chunk of T tokens goes through a backend as
//     embed, then for each layer: delta_net | attention, then  mlp | route .. routes .. shared_expert .. experts* ..
//     end_moe and at the end logits.
// The residual stream x [T, hidden] f32 lives inside the backend between the calls. Calls may be queued (GPU);
// routes(), guesses(), logits(), hidden() and finish() wait for what was queued.
//
// Contract: the result for a token does not depend on the number of threads or on the order in which experts arrive,
// not by a single bit. So every output element is summed in a fixed order, and the routed experts of a token are added
// in ascending order of their id. On the CPU it does not depend on T either; a GPU computes chunks of more than a few
// tokens by tiles, which rounds differently (within the tolerances of its tests).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/weights.h"
#include "base/slot_heap.h"
#include "model/config.h"

namespace swiftlet {

// Memory of a backend, zeroed, page-aligned, committed as it is touched. What touches it comes after everything that
// was queued.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual size_t bytes() const = 0;
  virtual std::byte* host() = 0;  // null where the CPU cannot see it
  virtual void clear() = 0;       // to zeros
  virtual void read(uint64_t offset, void* to, size_t bytes) = 0;
  virtual void write(uint64_t offset, const void* from, size_t bytes) = 0;
};

// State of one DeltaNet layer: the last kernel - 1 inputs of the convolution, oldest first, and the recurrent state.
struct DeltaNetState {
  std::unique_ptr<Buffer> conv;   // f32 [kernel - 1, conv_dim]
  std::unique_ptr<Buffer> state;  // f32 [value heads, value_head_dim, key_head_dim]
};

enum class KvType : uint8_t { F32, F16, Int8 };

// Keys (after norm and rotary) and values of one attention layer, [capacity, kv heads, head_dim] each.
// Int8: symmetric, one f32 scale for each position and head, [capacity, kv heads].
struct KvCache {
  KvType type = KvType::F16;
  int64_t capacity = 0;  // positions
  std::unique_ptr<Buffer> keys, values;
  std::unique_ptr<Buffer> key_scales, value_scales;  // Int8 only
};

// Top-k of the router for T tokens, [T, k], by falling weight (ties: lower id first).
// probability = softmax over all experts; weight = probability, divided by the sum of the k if norm_topk_prob.
struct Routes {
  int tokens = 0;
  int k = 0;
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// The largest logits of a token, falling, ties by lower id, and log(sum(exp(logit))) over the vocabulary.
struct TopLogits {
  std::vector<std::pair<float, int32_t>> best;
  float log_sum_exp = 0;
};

// A token that chose an expert.
struct ExpertToken {
  int32_t token;  // 0 .. T-1
  int32_t rank;   // place of this expert among the token's experts by ascending id, 0 .. k-1
  float weight;
};

// One expert to apply: its blob, and the tokens that chose it, ascending. A backend that has an order of its own for it
// (interleaves()) brings it into that order where as_read says that it lies as it was read, and clears as_read. Null:
// it lies in the backend's order.
struct ExpertWork {
  int32_t expert;
  std::byte* slot;
  std::span<const ExpertToken> tokens;
  bool* as_read = nullptr;
};

// What a GPU was asked to do since the backend was made; it does not vary from run to run. Zeros on the CPU.
struct BackendCounters {
  uint64_t dispatches = 0;  // of kernels
  uint64_t commits = 0;     // of command buffers that held some
  uint64_t waits = 0;       // of the CPU for the GPU
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string description() const = 0;  // "cpu (avx2, 2 threads)"
  // What the bits of a result depend on: states go from one backend to another only if both say the same here.
  virtual std::string arithmetic() const { return description(); }
  virtual BackendCounters counters() const { return {}; }

  // Whether a matrix is to lie as interleave.h says, wherever it is handed to this backend (but not to embed()).
  virtual bool interleaves(const Matrix& /*matrix*/) const { return false; }

  // Memory; `shared`: the CPU sees it at host(). Weights and slots are announced before use, so that a GPU can map or
  // mirror them; add_memory and remove_memory are called from any thread.
  virtual std::unique_ptr<Buffer> allocate(size_t bytes, bool shared = false) = 0;
  virtual void add_memory(const std::byte* base, size_t bytes) = 0;
  virtual void remove_memory(const std::byte* base) = 0;
  // Where slots must lie, if not in this process's memory: those are not announced.
  virtual SlotHeap* slot_heap() { return nullptr; }
  // Of a device with memory of its own, which the plan is then about: what this process holds of it already, and what
  // it can still take.
  struct DeviceMemory {
    uint64_t used, available;
  };
  virtual std::optional<DeviceMemory> device_memory() const { return {}; }

  // The most tokens of one chunk from now on; allocates scratch. scratch_bytes says how much that is (the planner
  // asks).
  virtual void reserve(int max_tokens) = 0;
  virtual size_t scratch_bytes(int max_tokens) const = 0;

  // x = the rows of the embedding, dequantized. `rows` is a gathered [T, hidden] matrix, row t for token t, in a shared
  // buffer.
  virtual void embed(const Matrix& rows, int tokens) = 0;

  // x += mixer(rms_norm(x)); the state moves T tokens on. `position` is that of the first token.
  virtual void delta_net(const DeltaNetWeights& weights, DeltaNetState& state, int tokens) = 0;
  // The same for tokens first .. first + count - 1 of the chunk alone, where the backend can: then the state can be
  // copied in the middle of a chunk.
  virtual bool delta_net_in_parts() const { return false; }
  virtual void delta_net_part(const DeltaNetWeights&, DeltaNetState&, [[maybe_unused]] int first,
                              [[maybe_unused]] int count) {}
  virtual void attention(const AttentionWeights& weights, KvCache& cache, int64_t position, int tokens) = 0;

  // x += mlp(rms_norm(x)), for a layer without experts.
  virtual void mlp(const DenseMlpWeights& weights, int tokens) = 0;

  // h = rms_norm(x), kept for shared_expert and experts; top-k of the router on h. routes() returns what the last
  // route() of that layer chose.
  // Where all experts of the layer are resident `slots` are theirs, by id, for routed_experts(); `version` is another
  // one when they are others.
  virtual void route(const MoeWeights& weights, int layer, int tokens, std::span<const std::byte* const> slots = {},
                     uint64_t version = 0) = 0;
  virtual Routes routes(int layer) = 0;
  // What a later layer's router would choose, were x its input now: a guess, for prefetching.
  virtual void guess(const MoeWeights& later, int tokens) = 0;
  virtual Routes guesses() = 0;

  // y = sigmoid(shared_expert_gate(h)) * shared_expert(h)
  virtual void shared_expert(const MoeWeights& weights, int tokens) = 0;
  // y += weight * expert(h) for each piece of work. May be called several times for a layer, each expert once.
  // Chunks of up to kUnorderedTokens tokens take the experts in any order; longer ones in ascending order of id.
  static constexpr int kUnorderedTokens = 32;
  virtual void experts(const MlpWeights& expert, std::span<const ExpertWork> work, int tokens) = 0;
  // The same for all experts that the last route() chose, which was given their slots, so that nobody needs to wait for
  // routes(). Only for up to kUnorderedTokens tokens, and if follows_routes().
  virtual bool follows_routes() const { return false; }
  virtual void routed_experts(const MlpWeights& /*expert*/, int /*tokens*/) {}
  // x += y
  virtual void end_moe(int tokens) = 0;

  // lm_head(rms_norm(x)) of tokens first .. first + count - 1, [count, vocab] f32.
  virtual void logits(const HeadWeights& head, int first, int count, float* out) = 0;
  // The `count` largest of one token's logits, without bringing all of them to the CPU: up to most_top_logits(), which
  // is 0 where that saves nothing. log_sum_exp is NaN if a logit is not finite.
  virtual int most_top_logits() const { return 0; }
  virtual TopLogits top_logits(const HeadWeights& /*head*/, int /*token*/, int /*count*/) { return {}; }
  // x of the last chunk, [T, hidden] (tests look at it between layers).
  virtual void hidden(float* out, int tokens) = 0;
  // Whether calls are queued: then what they were given (slots, states, buffers) is in use until finish(), or any other
  // call that waits, has returned.
  virtual bool queues() const { return false; }
  virtual void finish() {}
};

}  // namespace swiftlet
