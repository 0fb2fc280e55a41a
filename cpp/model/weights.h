// The resident weights of a model: everything but the routed experts, in one arena, in the checkpoint's bytes, which
// lie in the backend's order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/memory.h"
#include "container/qpack.h"
#include "model/config.h"

namespace swiftlet {

struct LayerWeights {
  DeltaNetWeights delta_net;   // where config.linear_layers
  AttentionWeights attention;  // elsewhere
  MoeWeights moe;              // where config.moe_layers
  DenseMlpWeights dense;       // elsewhere
};

// Embedding rows are fetched one by one; unless the table doubles as the head it stays on disk.
struct Embedding {
  Matrix table;  // base is null when it stays on disk
  const SafetensorsFile* file = nullptr;
  const TensorInfo* weight = nullptr;
  const TensorInfo* scales = nullptr;  // null: not quantized
  const TensorInfo* biases = nullptr;
};

struct ModelWeights {
  PageMemory arena;
  std::vector<LayerWeights> layers;
  HeadWeights head;
  Embedding embedding;
};

// Bytes of the arena, without reading a weight. Throws ErrorKind::Container like load_weights.
uint64_t resident_weight_bytes(const Qpack& qpack, const ModelConfig& config);

// Reads the weights, for this backend. Throws ErrorKind::Container where a tensor is missing, has the wrong shape, or
// disagrees with the config's quantization block or with the layout of the experts.
ModelWeights load_weights(const Qpack& qpack, const ModelConfig& config, const Backend& backend);

// Whether the backend brings experts into an order of its own (ExpertStoreOptions::user_orders).
bool orders_experts(const ModelWeights& weights);

// Bytes that gather_embedding needs for `tokens` rows.
uint64_t embedding_rows_bytes(const Embedding& embedding, int tokens);

// Copies the rows of `ids` into `memory` and returns the matrix [ids.size(), hidden] they form there.
Matrix gather_embedding(const Embedding& embedding, std::span<const int32_t> ids, std::byte* memory);

}  // namespace swiftlet
