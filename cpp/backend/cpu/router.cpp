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

void route(Cpu& cpu, const MoeWeights& weights, int tokens, bool keep_norm, int32_t* ids, float* probabilities) {
  const ModelConfig& c = cpu.config;
  const int experts = c.num_experts, k = c.num_experts_per_tok;
  for (int begin = 0; begin < tokens; begin += kTokenTile) {
    const int count = std::min(tokens - begin, kTokenTile);
    float* norm = keep_norm ? cpu.scratch.h + begin * c.hidden_size : cpu.scratch.norm;
    norm_tokens(cpu, cpu.scratch.x + begin * c.hidden_size, weights.post_attention_norm, count, norm);
    project(cpu, {{&weights.router, cpu.scratch.mlp.router, experts}}, norm, c.hidden_size, count);
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
