// Products with weight matrices: a few tokens as vectors, more by tiles.
#include <algorithm>
#include <array>

#include "backend/gpu/gpu.h"
#include "base/error.h"

namespace swiftlet::gpu {
namespace {

// Of threadgroups: with fewer than enough a large GPU is not busy, with more than many each should do more.
constexpr uint32_t kEnoughGroups = 256, kManyGroups = 1024;
constexpr uint32_t kFewestThreads = 64, kMostThreads = 128;
constexpr uint32_t kMostPasses = 4;

// The memory that holds the matrices, and where their base lies in it.
MemoryMap::Place base_of(Gpu& gpu, const Matrix& matrix) { return gpu.memory.find(matrix.base); }

uint32_t dtype_constant(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return kF32;
    case DType::F16:
      return kF16;
    case DType::BF16:
      return kBf16;
    default:
      return kU8;
  }
}

bool is_wide(const Matrix& m, uint64_t base_offset) {
  const auto aligned = [&](uint64_t offset, uint64_t bytes) { return (base_offset + offset) % bytes == 0; };
  if (m.cols % kPiece || !aligned(m.weight_offset, 16) || m.weight_row_bytes() % 16) return false;
  if (m.codec == Codec::Plain) return true;
  return aligned(m.scales_offset, size_of(m.dtype)) &&
         (m.codec != Codec::Affine || aligned(m.biases_offset, size_of(m.dtype)));
}

void matvec(Gpu& gpu, const MemoryMap::Place& arena, std::span<const Projection> group, Binding x, uint32_t x_stride,
            Binding y, uint32_t y_stride, int tokens) {
  const Matrix& first = *group[0].matrix;
  int64_t rows = 0;
  for (const Projection& p : group) rows += p.matrix->rows;
  const RowSplit split = split_rows(first.cols, rows, tokens);
  MatvecArgs args{};
  const uint32_t groups = list_matrices(gpu, group, arena.offset, split.rows_per_pass * split.passes, args.matrices);
  args.columns = uint32_t(first.cols);
  args.x_stride = x_stride;
  args.y_stride = y_stride;
  args.passes = split.passes;
  std::vector<Constant> constants = encoding(first, arena.offset, x_stride % 4 == 0 && x.offset % 16 == 0);
  constants.push_back({kConstLanes, split.lanes});
  dispatch(gpu, {"matvec", "matvec"}, constants, {in(*arena.memory), x, y}, args, {groups, uint32_t(tokens)},
           split.threads);
}

void matmul(Gpu& gpu, const MemoryMap::Place& arena, std::span<const Projection> group, Binding x, uint32_t x_stride,
            Binding y, uint32_t y_stride, int tokens) {
  const Matrix& first = *group[0].matrix;
  MatmulArgs args{};
  const uint32_t groups = list_matrices(gpu, group, arena.offset, kTile, args.matrices);
  args.columns = uint32_t(first.cols);
  args.tokens = uint32_t(tokens);
  args.x_stride = x_stride;
  args.y_stride = y_stride;
  std::vector<Constant> constants = encoding(first, arena.offset, true);
  constants.push_back({kConstPooled, kArena});
  constants.push_back({kConstMatrix, gpu.device.matrix_units()});
  const Binding none = in(*arena.memory);
  dispatch(gpu, {"matmul", "matmul"}, constants, {in(*arena.memory), x, y, none, none, none}, args,
           {groups, ceil_div(tokens, kTile)}, kMatmulThreads);
}

}  // namespace

MatrixPlace place_of(const Matrix& m, uint64_t base_offset) {
  return {base_offset + m.weight_offset, base_offset + m.scales_offset, base_offset + m.biases_offset};
}

std::vector<Constant> encoding(const Matrix& m, uint64_t base_offset, bool wide_input) {
  const bool plain = m.codec == Codec::Plain;
  return {{kConstCodec, uint32_t(m.codec)},
          {kConstBits, plain ? 0 : uint32_t(m.bits)},
          {kConstGroup, uint32_t(m.group_size)},
          {kConstDtype, dtype_constant(m.dtype)},
          {kConstWide, wide_input && is_wide(m, base_offset)}};
}

uint32_t list_matrices(Gpu& gpu, std::span<const Projection> matrices, uint64_t base_offset, uint32_t rows_of_group,
                       ProjectedMatrix* to) {
  uint32_t groups = 0;
  for (const Projection& p : matrices) {
    const Matrix& m = *p.matrix;
    *to = {place_of(m, base_offset), kNoBias, uint32_t(m.rows), ceil_div(m.rows, rows_of_group), p.out};
    if (m.bias) to->bias = gpu.memory.find(m.bias).offset;
    groups += to++->groups;
  }
  return groups;
}

bool same_encoding(const Matrix& a, const Matrix& b) {
  return a.codec == b.codec && a.bits == b.bits && a.group_size == b.group_size && a.dtype == b.dtype &&
         a.cols == b.cols && is_wide(a, 0) == is_wide(b, 0);
}

RowSplit split_rows(int64_t columns, int64_t rows, int64_t times) {
  const uint32_t pieces = ceil_div(columns, kPiece);
  RowSplit s{};
  s.lanes = pieces >= 32 ? 16 : 8;  // two pieces for each, so that one is on its way while the other is multiplied
  // The largest threadgroups of which there are enough: each reads the vector once for all of its rows.
  for (s.threads = kMostThreads; s.threads > kFewestThreads; s.threads /= 2)
    if (rows * times >= int64_t(s.threads / s.lanes * kRows) * kEnoughGroups) break;
  s.rows_per_pass = s.threads / s.lanes * kRows;
  s.passes = uint32_t(std::clamp<int64_t>(rows * times / (int64_t(s.rows_per_pass) * kManyGroups), 1, kMostPasses));
  return s;
}

void project(Gpu& gpu, std::span<const Projection> projections, Binding x, uint32_t x_stride, Binding y,
             uint32_t y_stride, int tokens) {
  std::vector<Projection> left(projections.begin(), projections.end());
  while (!left.empty()) {
    // All that are encoded as the first, as one dispatch.
    const Matrix first = *left[0].matrix;
    const auto others = std::stable_partition(left.begin(), left.end(),
                                              [&](const Projection& p) { return same_encoding(*p.matrix, first); });
    const size_t count = std::min(size_t(others - left.begin()), size_t(kMaxMatrices));
    const std::span<const Projection> group(left.data(), count);
    const MemoryMap::Place arena = base_of(gpu, first);
    if (tokens <= kVectorTokens)
      matvec(gpu, arena, group, x, x_stride, y, y_stride, tokens);
    else
      matmul(gpu, arena, group, x, x_stride, y, y_stride, tokens);
    left.erase(left.begin(), left.begin() + std::ptrdiff_t(count));
    if (!left.empty()) gpu.device.barrier();  // both write to y, if not to the same places
  }
}

// MLPs --------------------------------------------------------------------------------------------------------------

void mlp(Gpu& gpu, const MlpWeights& w, const Memory& to, int tokens) {
  const Scratch& s = gpu.scratch;
  const int64_t hidden = w.gate_proj.cols, rows = w.gate_proj.rows;
  for (int begin = 0; begin < tokens; begin += kMixerTile) {
    const int count = std::min(tokens - begin, kMixerTile);
    const Binding x = in(*s.h, uint64_t(begin) * hidden);
    if (count <= kVectorTokens && same_encoding(w.gate_proj, w.up_proj)) {
      const MemoryMap::Place arena = base_of(gpu, w.gate_proj);
      const RowSplit split = split_rows(hidden, 2 * rows, count);
      const GateUpArgs args{.gate = place_of(w.gate_proj, arena.offset),
                            .up = place_of(w.up_proj, arena.offset),
                            .rows = uint32_t(rows),
                            .columns = uint32_t(hidden),
                            .x_stride = uint32_t(hidden),
                            .passes = split.passes,
                            .experts_per_token = 1};
      std::vector<Constant> constants = encoding(w.gate_proj, arena.offset, hidden % 4 == 0);
      constants.push_back({kConstLanes, split.lanes});
      constants.push_back({kConstPooled, kArena});
      const Binding none = in(*arena.memory);
      dispatch(gpu, {"matvec", "gate_up"}, constants, {in(*arena.memory), x, out(*s.activated), none, none}, args,
               {split.groups(2 * rows), uint32_t(count)}, split.threads);
    } else {
      project(gpu, std::array{Projection{&w.gate_proj, 0}, Projection{&w.up_proj, uint32_t(rows)}}, x, uint32_t(hidden),
              out(*s.gate_up), uint32_t(2 * rows), count);
      gpu.device.barrier();
      dispatch(gpu, {"experts", "silu_mul"}, {}, {in(*s.gate_up), out(*s.activated)}, SiluMulArgs{uint32_t(rows)},
               {ceil_div(rows, kElementThreads), uint32_t(count)}, kElementThreads);
    }
    gpu.device.barrier();
    project(gpu, std::array{Projection{&w.down_proj, 0}}, in(*s.activated), uint32_t(rows),
            out(to, uint64_t(begin) * hidden), uint32_t(hidden), count);
    gpu.device.barrier();
  }
}

}  // namespace swiftlet::gpu
