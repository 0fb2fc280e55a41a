// Matrices over tiles of tokens, cut by rows.
#include <algorithm>

#include "backend/cpu/blocks.h"

namespace swiftlet {

void project(Cpu& cpu, std::initializer_list<Projection> projections, const float* x, int64_t x_stride, int tokens) {
  int64_t rows = 0;
  for (const Projection& p : projections) rows += p.weight->rows;
  parallel(cpu, rows, row_grain(cpu, rows, tokens), [&](int64_t begin, int64_t end) {
    int64_t first = 0;  // row of the loop where this matrix begins
    for (const Projection& p : projections) {
      const int64_t lo = std::max<int64_t>(begin - first, 0), hi = std::min(end - first, p.weight->rows);
      if (lo < hi) cpu.ops.matmul(*p.weight, x, x_stride, tokens, p.y, p.y_stride, lo, hi);
      first += p.weight->rows;
    }
  });
}

void project_and_add(Cpu& cpu, const Matrix& weight, const float* in, int64_t in_stride, int tokens, float* x) {
  const int64_t hidden = cpu.config.hidden_size;
  float* sum = cpu.scratch.sum;
  parallel(cpu, weight.rows, row_grain(cpu, weight.rows, tokens), [&](int64_t begin, int64_t end) {
    cpu.ops.matmul(weight, in, in_stride, tokens, sum, hidden, begin, end);
    for (int t = 0; t < tokens; ++t)
      for (int64_t i = begin; i < end; ++i) x[t * hidden + i] += sum[t * hidden + i];
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
