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

// Bytes of the buffers of a state, in the order of its layers.
struct StateShape {
  std::vector<uint64_t> delta_nets;  // conv, then state, of each DeltaNet layer
  std::vector<uint64_t> kv_rows;     // of one position: keys, then values (Int8: then the scales of both)
  uint64_t delta_bytes = 0;          // the sum of delta_nets
  uint64_t row_bytes = 0;            // the sum of kv_rows
};

StateShape state_shape(const ModelConfig& config, KvType kv);

// The buffers that a shape speaks of, in its order.
std::vector<Buffer*> delta_net_buffers(const ModelState& state);
std::vector<Buffer*> kv_buffers(const ModelState& state);

ModelState make_state(const ModelConfig& config, Backend& backend, int64_t context, KvType kv);

// Forgets everything: position 0, zero states. KV rows beyond the position are never read, so they may stay.
void clear_state(ModelState& state);

// Bytes of a state that holds `context` tokens.
uint64_t state_bytes(const ModelConfig& config, int64_t context, KvType kv);

}  // namespace swiftlet
