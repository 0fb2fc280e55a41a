// What a token of a model costs: bytes that must be read, and multiplications.
#pragma once

#include <cstdint>

#include "container/qpack.h"
#include "model/config.h"
#include "model/state.h"

namespace swiftlet::bench {

// Bytes that the decode of one token reads at least once.
struct TokenBytes {
  uint64_t resident = 0;  // weights outside the routed experts, head included
  uint64_t experts = 0;   // routed experts
  uint64_t state = 0;     // of the DeltaNet layers (and as many are written)
  uint64_t kv_row = 0;    // keys and values of one position
  uint64_t at(int64_t position) const { return resident + experts + state + uint64_t(position) * kv_row; }
};
TokenBytes token_bytes(const Qpack& qpack, const ModelConfig& config, KvType kv);

// Weights that a token of a prefill is multiplied with: all active ones without the head, which only the last token of
// a prompt needs.
double prefill_weights(const ModelConfig& config);

}  // namespace swiftlet::bench
