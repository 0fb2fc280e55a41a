// The SwiGLU MLPs that every token goes through: a dense layer's and the shared expert.
#include <algorithm>
#include <cstring>

#include "backend/cpu/blocks.h"

namespace swiftlet {

void gate_and_up(Cpu& cpu, const MlpWeights& mlp, const Activations& in, float* gate, float* up, int64_t begin,
                 int64_t end) {
  const int64_t stride = padded(mlp.gate_proj.rows);
  multiply(cpu, mlp.gate_proj, in, gate, stride, begin, end);
  multiply(cpu, mlp.up_proj, in, up, stride, begin, end);
  for (int t = 0; t < in.tokens; ++t) cpu.ops.silu_mul(gate + t * stride + begin, up + t * stride + begin, end - begin);
}

namespace {

// All rows, for one tile of tokens; the result is scratch.mlp.gate.
void gate_and_up(Cpu& cpu, const MlpWeights& mlp, const Activations& in) {
  parallel(cpu, mlp.gate_proj.rows, row_grain(cpu, in.tokens, in.packed, mlp.gate_proj.rows),
           [&](int64_t begin, int64_t end) {
             gate_and_up(cpu, mlp, in, cpu.scratch.mlp.gate, cpu.scratch.mlp.up, begin, end);
           });
}

}  // namespace

void dense_mlp(Cpu& cpu, const DenseMlpWeights& weights, int tokens) {
  const int64_t hidden = cpu.config.hidden_size;
  for (int begin = 0; begin < tokens; begin += kTokenTile) {
    const int count = std::min(tokens - begin, kTokenTile);
    float* x = cpu.scratch.x + begin * hidden;
    norm_tokens(cpu, x, weights.post_attention_norm, count, cpu.scratch.norm);
    const bool packed = gate_or_up_in_integers(cpu, weights.mlp);
    gate_and_up(cpu, weights.mlp, activations(cpu, packed, cpu.scratch.norm, hidden, hidden, count));
    project_and_add(cpu, weights.mlp.down_proj, cpu.scratch.mlp.gate, padded(weights.mlp.down_proj.cols), count, x);
  }
}

void shared_expert(Cpu& cpu, const MoeWeights& weights, int tokens) {
  const int64_t hidden = cpu.config.hidden_size, y_stride = padded(hidden);
  const auto& s = cpu.scratch;
  const MlpWeights& mlp = weights.shared_expert;
  const Matrix& down = mlp.down_proj;
  for (int begin = 0; begin < tokens; begin += kTokenTile) {
    const int count = std::min(tokens - begin, kTokenTile);
    float* y = s.y + begin * y_stride;
    const Activations h = h_of(cpu, gate_or_up_in_integers(cpu, mlp), begin, count);
    gate_and_up(cpu, mlp, h);
    multiply(cpu, weights.shared_expert_gate, h, s.mlp.shared_gate, 1, 0, 1);
    for (int t = 0; t < count; ++t) s.mlp.shared_gate[t] = sigmoid(s.mlp.shared_gate[t]);
    const Activations gate = activations(cpu, in_integers(cpu, down), s.mlp.gate, down.cols, padded(down.cols), count);
    parallel(cpu, hidden, row_grain(cpu, gate.tokens, gate.packed, hidden), [&](int64_t first, int64_t last) {
      multiply(cpu, down, gate, y, y_stride, first, last);
      for (int t = 0; t < count; ++t)
        for (int64_t i = first; i < last; ++i) y[t * y_stride + i] *= s.mlp.shared_gate[t];
    });
  }
  // From here on experts arrive.
  const int unordered = std::min(tokens, Backend::kUnorderedTokens);
  std::memset(s.expert_arrived, 0, size_t(unordered * cpu.config.num_experts_per_tok));
}

}  // namespace swiftlet
