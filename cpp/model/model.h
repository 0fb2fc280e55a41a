// The forward pass: which block when, and which experts. Nothing is computed here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "experts/expert_store.h"
#include "model/config.h"
#include "model/state.h"
#include "model/weights.h"

namespace swiftlet {

// Called on the way through a chunk; all may be empty.
struct ForwardHooks {
  std::function<void()> before_layer;                                // may throw to stop there (cancel)
  std::function<void()> between_experts;                             // of a layer; may throw as well
  std::function<void(int layer)> after_layer;                        // -1: after the embedding
  std::function<void(int layer, const Routes& routes)> after_route;  // layers with experts
};

// A copy of the DeltaNet states in the middle of a chunk: after so many of its tokens, at least one and not all.
struct StateCopy {
  int after;
  std::byte* to;  // room for all of them, in the order of StateShape::delta_nets
};

class Model {
 public:
  Model(const ModelConfig& config, const ModelWeights& weights, Backend& backend, ExpertStore& store, int max_tokens);
  ~Model();
  Model(const Model&) = delete;

  // Feeds one chunk of 1 .. max_tokens ids to the state. The residual stream of the chunk stays in the backend, for
  // logits(). `copies`, in ascending order, only if the backend can (delta_net_in_parts). If this throws, the state is
  // half moved on and of no use any more.
  void forward(ModelState& state, std::span<const int32_t> ids, const ForwardHooks& hooks = {},
               std::span<const StateCopy> copies = {});

  // Logits of tokens first .. first + count - 1 of the last chunk, [count, vocab]. Throws ErrorKind::Numeric if one is
  // not finite.
  void logits(int first, int count, float* out, const ForwardHooks& hooks = {});

  // The largest logits of one token of the last chunk; see Backend::top_logits. Throws ErrorKind::Numeric likewise.
  TopLogits top_logits(int token, int count, const ForwardHooks& hooks = {});

  // Waits for the backend. Until this, logits() or the next forward(), experts of the last layers stay pinned, and
  // routes of layers that were followed without a wait are not reported to hooks.after_route.
  void finish(const ForwardHooks& hooks = {});

  // After an error of the methods above: waits for what they queued, which uses the state and the slots, and drops it.
  void abandon();

  // In decode: reads the experts that the next layer is likely to choose while this one computes.
  void set_prefetch(bool on) { prefetch_ = on; }

 private:
  void delta_net(int layer, ModelState& state, int tokens, std::span<const StateCopy> copies);
  void moe(int layer, int tokens, const ForwardHooks& hooks);
  bool guesses_next_layer(int layer, int tokens) const;
  void settle(const ForwardHooks& hooks);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Backend& backend_;
  ExpertStore& store_;
  std::unique_ptr<Buffer> embedding_rows_;
  uint64_t copied_ = 0;                          // bytes of each copy that are there, while a chunk passes
  std::optional<ExpertStore::Request> request_;  // the last one: its experts may be in use
  struct Followed {
    int layer, tokens;
  };
  std::vector<Followed> followed_;  // layers whose routes nobody has waited for yet
  bool prefetch_ = false;
};

}  // namespace swiftlet
