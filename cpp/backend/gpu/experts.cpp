// The routed experts: of a short chunk each (token, expert) pair as a vector, of a long one by tiles of an expert's
// tokens.
#include <algorithm>
#include <array>

#include "backend/gpu/gpu.h"
#include "base/error.h"

namespace swiftlet::gpu {
namespace {

void check_experts(const MlpWeights& expert) {
  if (!same_encoding(expert.gate_proj, expert.up_proj))
    fail(ErrorKind::Container, "gate_proj and up_proj of the experts are quantized differently, which the GPU backend ",
         "does not support: use the CPU backend");
}

// gate, up and down of (token, place) pairs of a short chunk, each a vector.
void vector_pairs(Gpu& gpu, const MlpWeights& w, Binding pairs, uint32_t count) {
  const Scratch& s = gpu.scratch;
  const int64_t hidden = w.gate_proj.cols, rows = w.gate_proj.rows;
  const uint32_t k = uint32_t(gpu.config.num_experts_per_tok);
  const uint32_t first_expert = uint32_t(gpu.layer * gpu.config.num_experts);
  const uint64_t routes = uint64_t(gpu.layer) * uint64_t(std::min(gpu.max_tokens, Backend::kUnorderedTokens)) * k;
  const Binding chosen = in(*s.experts, routes);
  {
    const RowSplit split = split_rows(hidden, 2 * rows * count);
    const GateUpArgs args{.gate = place_of(w.gate_proj, 0),
                          .up = place_of(w.up_proj, 0),
                          .rows = uint32_t(rows),
                          .columns = uint32_t(hidden),
                          .x_stride = uint32_t(hidden),
                          .passes = split.passes,
                          .experts_per_token = k,
                          .first_expert = first_expert};
    std::vector<Constant> constants = encoding(w.gate_proj, 0, hidden % 4 == 0);
    constants.push_back({kConstLanes, split.lanes});
    constants.push_back({kConstPooled, 1});
    dispatch(gpu, {"matvec", "gate_up"}, constants,
             {in(*s.slots), in(*s.h), out(*s.activated), in(*s.slots), chosen, pairs}, args,
             {split.groups(rows), count}, kVectorThreads);
  }
  gpu.device.barrier();
  const RowSplit split = split_rows(rows, hidden * count);
  const DownArgs args{.place = place_of(w.down_proj, 0),
                      .rows = uint32_t(hidden),
                      .columns = uint32_t(rows),
                      .passes = split.passes,
                      .experts_per_token = k,
                      .first_expert = first_expert};
  std::vector<Constant> constants = encoding(w.down_proj, 0, rows % 4 == 0);
  constants.push_back({kConstLanes, split.lanes});
  dispatch(gpu, {"matvec", "expert_down"}, constants,
           {in(*s.activated), out(*s.expert_out), in(*s.slots), chosen, pairs}, args, {split.groups(hidden), count},
           kVectorThreads);
  gpu.device.barrier();
}

uint64_t* slot_table(Gpu& gpu) {
  return reinterpret_cast<uint64_t*>(gpu.scratch.slots->host()) + int64_t(gpu.layer) * gpu.config.num_experts;
}

// Tells the kernels where an expert of this layer lies.
void place_expert(Gpu& gpu, int32_t expert, const std::byte* slot) {
  const MemoryMap::Place place = gpu.memory.find(slot);
  slot_table(gpu)[expert] = place.memory->address() + place.offset;
  gpu.device.use(*place.memory);
}

// Some experts of a long chunk, and the rows of their tokens, of which there are at most mlp_rows.
struct Batch {
  std::vector<ExpertTile> tiles;
  std::vector<uint32_t> tokens;  // by row
  std::vector<int32_t> row_of;   // by token and place, -1: not among them
};

void tile_pairs(Gpu& gpu, const MlpWeights& w, const Batch& batch, int tokens) {
  const Scratch& s = gpu.scratch;
  const int64_t hidden = w.gate_proj.cols, rows = w.gate_proj.rows;
  const uint32_t k = uint32_t(gpu.config.num_experts_per_tok), tiles = uint32_t(batch.tiles.size());
  const auto bytes = [](const auto& list) { return list.size() * sizeof(list[0]); };
  if (upload_room(gpu) < bytes(batch.tiles) + bytes(batch.tokens) + bytes(batch.row_of) + 64) wait_for_all(gpu);
  const Binding tile_list = upload(gpu, batch.tiles.data(), bytes(batch.tiles));
  const Binding token_list = upload(gpu, batch.tokens.data(), bytes(batch.tokens));
  const Binding row_list = upload(gpu, batch.row_of.data(), bytes(batch.row_of));

  const auto multiply = [&](std::span<const Projection> matrices, Binding x, bool gather, Binding y,
                            uint32_t y_stride) {
    MatmulArgs args{};
    uint32_t groups = 0;
    for (size_t i = 0; i < matrices.size(); ++i) {
      const Matrix& m = *matrices[i].matrix;
      args.matrices[i] = {place_of(m, 0), kNoBias, uint32_t(m.rows), ceil_div(m.rows, kTile), matrices[i].out};
      groups += args.matrices[i].groups;
    }
    args.columns = uint32_t(matrices[0].matrix->cols);
    args.x_stride = args.columns;
    args.y_stride = y_stride;
    args.first_expert = uint32_t(gpu.layer * gpu.config.num_experts);
    args.gather = gather;
    std::vector<Constant> constants = encoding(*matrices[0].matrix, 0, true);
    constants.push_back({kConstPooled, 1});
    constants.push_back({kConstMatrix, gpu.device.matrix_units()});
    dispatch(gpu, {"matmul", "matmul"}, constants, {in(*s.slots), x, y, in(*s.slots), tile_list, token_list}, args,
             {groups, tiles}, kMatmulThreads);
  };
  multiply(std::array{Projection{&w.gate_proj, 0}, Projection{&w.up_proj, uint32_t(rows)}}, in(*s.h), true,
           out(*s.gate_up), uint32_t(2 * rows));
  gpu.device.barrier();
  dispatch(gpu, {"experts", "silu_mul"}, {}, {in(*s.gate_up), out(*s.activated)}, SiluMulArgs{uint32_t(rows)},
           {ceil_div(rows, kVectorThreads), uint32_t(batch.tokens.size())}, kVectorThreads);
  gpu.device.barrier();
  multiply(std::array{Projection{&w.down_proj, 0}}, in(*s.activated), false, out(*s.expert_out), uint32_t(hidden));
  gpu.device.barrier();
  dispatch(gpu, {"experts", "add_experts"}, {}, {out(*s.shared), in(*s.expert_out), row_list, in(*s.weights)},
           GatherArgs{uint32_t(hidden), k}, {ceil_div(hidden, kVectorThreads), uint32_t(tokens)}, kVectorThreads);
  gpu.device.barrier();
}

}  // namespace

void routed_experts(Gpu& gpu, const MlpWeights& expert, std::span<const std::byte* const> slots, uint64_t version,
                    int tokens) {
  check_experts(expert);
  LayerSlots& layer = gpu.layer_slots[size_t(gpu.layer)];
  if (layer.version != version || layer.memories.empty()) {
    // Nothing that is queued reads this layer's places: earlier chunks have been waited for.
    layer = {version, {}};
    for (size_t e = 0; e < slots.size(); ++e) {
      const MemoryMap::Place place = gpu.memory.find(slots[e]);
      slot_table(gpu)[e] = place.memory->address() + place.offset;
      if (std::ranges::find(layer.memories, place.memory) == layer.memories.end())
        layer.memories.push_back(place.memory);
    }
  }
  for (const auto& memory : layer.memories) gpu.device.use(*memory);
  std::vector<uint32_t> pairs(size_t(tokens) * size_t(gpu.config.num_experts_per_tok));
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = uint32_t(i);
  vector_pairs(gpu, expert, upload(gpu, pairs.data(), pairs.size() * 4), uint32_t(pairs.size()));
}

void experts(Gpu& gpu, const MlpWeights& expert, std::span<const ExpertWork> work, int tokens) {
  check_experts(expert);
  gpu.layer_slots[size_t(gpu.layer)] = {};
  for (const ExpertWork& piece : work) place_expert(gpu, piece.expert, piece.slot);
  const int64_t k = gpu.config.num_experts_per_tok;
  if (tokens <= Backend::kUnorderedTokens) {
    std::vector<uint32_t> pairs;
    for (const ExpertWork& piece : work)
      for (const ExpertToken& token : piece.tokens) pairs.push_back(uint32_t(token.token * k + token.rank));
    vector_pairs(gpu, expert, upload(gpu, pairs.data(), pairs.size() * 4), uint32_t(pairs.size()));
    return;
  }
  const size_t most = size_t(mlp_rows(gpu.config, gpu.max_tokens));
  Batch batch;
  const auto begin_batch = [&] {
    batch.tiles.clear();
    batch.tokens.clear();
    batch.row_of.assign(size_t(tokens * k), -1);
  };
  begin_batch();
  for (const ExpertWork& piece : work)
    for (std::span<const ExpertToken> left = piece.tokens; !left.empty();) {
      if (batch.tokens.size() == most) {
        tile_pairs(gpu, expert, batch, tokens);
        begin_batch();
      }
      const size_t taken = std::min({left.size(), size_t(kTile), most - batch.tokens.size()});
      batch.tiles.push_back({uint32_t(piece.expert), uint32_t(batch.tokens.size()), uint32_t(taken)});
      for (const ExpertToken& token : left.first(taken)) {
        batch.row_of[size_t(token.token * k + token.rank)] = int32_t(batch.tokens.size());
        batch.tokens.push_back(uint32_t(token.token));
      }
      left = left.subspan(taken);
    }
  if (!batch.tiles.empty()) tile_pairs(gpu, expert, batch, tokens);
}

}  // namespace swiftlet::gpu
