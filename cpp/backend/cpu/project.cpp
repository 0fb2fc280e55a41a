// Matrices over tiles of tokens, cut by rows.
#include <algorithm>

#include "backend/cpu/blocks.h"

namespace swiftlet {
namespace {

constexpr int64_t kPackGrain = 8;  // tokens: a thread is not woken for less

}  // namespace

Activations activations(Cpu& cpu, bool packed, const float* x, int64_t cols, int64_t stride, int tokens,
                        std::byte* to) {
  if (!packed) return {x, cols, stride, tokens, nullptr};
  if (!to) to = cpu.scratch.packed;
  parallel(cpu, tokens, kPackGrain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) cpu.ops.integers.pack(x + t * stride, cols, to + t * packed_bytes(cols));
  });
  return {x, cols, stride, tokens, to};
}

void project(Cpu& cpu, std::initializer_list<Projection> projections, const float* x, int64_t x_stride, int tokens) {
  bool packed = false;
  for (const Projection& p : projections) packed |= in_integers(cpu, *p.weight);
  project(cpu, projections, activations(cpu, packed, x, projections.begin()->weight->cols, x_stride, tokens));
}

void project(Cpu& cpu, std::initializer_list<Projection> projections, const Activations& x) {
  int64_t rows = 0;
  for (const Projection& p : projections) rows += p.weight->rows;
  parallel(cpu, rows, row_grain(cpu, x.tokens, x.packed, rows), [&](int64_t begin, int64_t end) {
    int64_t first = 0;  // row of the loop where this matrix begins
    for (const Projection& p : projections) {
      const int64_t lo = std::max<int64_t>(begin - first, 0), hi = std::min(end - first, p.weight->rows);
      if (lo < hi) multiply(cpu, *p.weight, x, p.y, p.y_stride, lo, hi);
      first += p.weight->rows;
    }
  });
}

void project_and_add(Cpu& cpu, const Matrix& weight, const float* from, int64_t stride, int tokens, float* x) {
  const Activations in = activations(cpu, in_integers(cpu, weight), from, weight.cols, stride, tokens);
  const int64_t hidden = cpu.config.hidden_size;
  parallel(cpu, weight.rows, row_grain(cpu, in.tokens, in.packed, weight.rows), [&](int64_t begin, int64_t end) {
    const int64_t columns = end - begin;
    float* sum = close_together(cpu.scratch.sum, begin, tokens);
    multiply(cpu, weight, in, sum, columns, begin, end);
    for (int t = 0; t < tokens; ++t, sum += columns)
      cpu.ops.add_scaled(x + t * hidden + begin, sum + begin, 1.0f, columns);
  });
}

void norm_tokens(Cpu& cpu, const float* x, const float* weight, int tokens, float* out) {
  const int64_t hidden = cpu.config.hidden_size;
  parallel(cpu, tokens, 4, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      cpu.ops.rms_norm(x + t * hidden, weight, hidden, cpu.config.rms_norm_eps, out + t * hidden);
  });
}

}  // namespace swiftlet
