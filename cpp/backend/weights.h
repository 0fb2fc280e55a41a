// What a layer's blocks need, as plain structs of matrices and f32 vectors.
// All of it points into memory that was announced with Backend::add_memory.
#pragma once

#include "backend/matrix.h"

namespace swiftlet {

// Norm weights are f32 and already 1 + w where the checkpoint stores w (Hugging Face layout).

struct DeltaNetWeights {
  const float* input_norm = nullptr;  // [hidden]
  Matrix in_proj_qkv;                 // [conv_dim, hidden]; rows: all q heads, all k heads, all v heads
  Matrix in_proj_z;                   // [value_dim, hidden]
  Matrix in_proj_b;                   // [value heads, hidden]
  Matrix in_proj_a;                   // [value heads, hidden]
  const float* conv1d = nullptr;      // [conv_dim, kernel]
  const float* A_log = nullptr;       // [value heads]
  const float* dt_bias = nullptr;     // [value heads]
  const float* norm = nullptr;        // [value_head_dim], a plain weight in every layout
  Matrix out_proj;                    // [hidden, value_dim]
};

struct AttentionWeights {
  const float* input_norm = nullptr;  // [hidden]
  Matrix q_proj;                      // [heads * 2 * head_dim, hidden]; rows of a head: query, then its gate
  Matrix k_proj;                      // [kv heads * head_dim, hidden]
  Matrix v_proj;
  Matrix o_proj;                  // [hidden, heads * head_dim]
  const float* q_norm = nullptr;  // [head_dim]
  const float* k_norm = nullptr;
};

// down(silu(gate(x)) * up(x))
struct MlpWeights {
  Matrix gate_proj;  // [intermediate, hidden]
  Matrix up_proj;    // [intermediate, hidden]
  Matrix down_proj;  // [hidden, intermediate]
  MlpWeights at(const std::byte* memory) const {
    return {gate_proj.at(memory), up_proj.at(memory), down_proj.at(memory)};
  }
};

struct MoeWeights {
  const float* post_attention_norm = nullptr;  // [hidden]
  Matrix router;                               // "mlp.gate" [experts, hidden]
  MlpWeights shared_expert;
  Matrix shared_expert_gate;  // [1, hidden]
  MlpWeights expert;          // a routed expert; base is null: use at(slot)
};

struct DenseMlpWeights {
  const float* post_attention_norm = nullptr;
  MlpWeights mlp;
};

struct HeadWeights {
  const float* norm = nullptr;  // [hidden]
  Matrix lm_head;               // [vocab, hidden]
};

}  // namespace swiftlet
