// What a sequence leaves behind in the layers: KV rows, convolution tails, recurrent states.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "model/config.h"

namespace swiftlet {

struct ModelState {
  int64_t position = 0;  // tokens seen
  int64_t context = 0;   // the most tokens it can hold
  // One entry a layer; the one that the layer does not use is empty.
  std::vector<DeltaNetState> delta_nets;
  std::vector<KvCache> kv_caches;
};

ModelState make_state(const ModelConfig& config, Backend& backend, int64_t context, KvType kv);

// Forgets everything: position 0, zero states. KV rows beyond the position are never read, so they may stay.
void clear_state(ModelState& state);

// Bytes of a state that holds `context` tokens.
uint64_t state_bytes(const ModelConfig& config, int64_t context, KvType kv);

}  // namespace swiftlet
