// Which experts a token goes to.
#include <algorithm>

#include "backend/cpu/blocks.h"

namespace swiftlet {

void top_k(const float* values, int n, int k, int32_t* indices, float* largest) {
  int count = 0;
  for (int i = 0; i < n; ++i) {
    if (count == k && !(values[i] > largest[k - 1])) continue;
    int place = count < k ? count++ : k - 1;
    for (; place > 0 && values[i] > largest[place - 1]; --place) {
      largest[place] = largest[place - 1];
      indices[place] = indices[place - 1];
    }
    largest[place] = values[i];
    indices[place] = i;
  }
}

void route(Cpu& cpu, const MoeWeights& weights, int tokens, bool keep_h, int32_t* ids, float* probabilities) {
  const ModelConfig& c = cpu.config;
  const int experts = c.num_experts, k = c.num_experts_per_tok;
  const int64_t hidden = c.hidden_size;
  const bool packed = keep_h ? takes_h_packed(cpu, weights) : in_integers(cpu, weights.router);
  for (int begin = 0; begin < tokens; begin += kTokenTile) {
    const int count = std::min(tokens - begin, kTokenTile);
    float* h = keep_h ? cpu.scratch.h + begin * hidden : cpu.scratch.norm;
    std::byte* packed_h = keep_h ? cpu.scratch.packed_h + begin * packed_bytes(hidden) : nullptr;
    norm_tokens(cpu, cpu.scratch.x + begin * hidden, weights.post_attention_norm, count, h);
    project(cpu, {{&weights.router, cpu.scratch.mlp.router, experts}},
            activations(cpu, packed, h, hidden, hidden, count, packed_h));
    parallel(cpu, count, 4, [&](int64_t t, int64_t end) {
      for (; t < end; ++t) {
        float* row = cpu.scratch.mlp.router + t * experts;
        float* chosen = probabilities + (begin + t) * k;
        cpu.ops.softmax(row, experts);
        top_k(row, experts, k, ids + (begin + t) * k, chosen);
        if (!c.norm_topk_prob) continue;
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += chosen[i];
        for (int i = 0; i < k; ++i) chosen[i] /= sum;
      }
    });
  }
}

}  // namespace swiftlet
