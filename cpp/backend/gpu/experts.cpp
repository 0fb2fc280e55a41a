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

// gate, up and down of (token, place) pairs of a short chunk, each a vector. kRouted: of all pairs, in `slots` as the
// router left them; kListed: of those in `pairs`, in as many slots.
void vector_pairs(Gpu& gpu, const MlpWeights& w, uint32_t pooled, Binding slots, Binding pairs, uint32_t count) {
  const Scratch& s = gpu.scratch;
  const int64_t hidden = w.gate_proj.cols, rows = w.gate_proj.rows;
  const auto constants_of = [&](const Matrix& m, const RowSplit& split) {
    std::vector<Constant> constants = encoding(m, 0, m.cols % 4 == 0);
    constants.push_back({kConstLanes, split.lanes});
    constants.push_back({kConstPooled, pooled});
    return constants;
  };
  const RowSplit wide = split_rows(hidden, 2 * rows, count);
  const GateUpArgs gate_up{.gate = place_of(w.gate_proj, 0),
                           .up = place_of(w.up_proj, 0),
                           .rows = uint32_t(rows),
                           .columns = uint32_t(hidden),
                           .x_stride = uint32_t(hidden),
                           .passes = wide.passes,
                           .experts_per_token = uint32_t(gpu.config.num_experts_per_tok)};
  dispatch(gpu, {"matvec", "gate_up"}, constants_of(w.gate_proj, wide),
           {in(*s.h), in(*s.h), out(*s.activated), slots, pairs}, gate_up, {wide.groups(2 * rows), count},
           wide.threads);
  gpu.device.barrier();
  const RowSplit narrow = split_rows(rows, hidden, count);
  const DownArgs down{
      .place = place_of(w.down_proj, 0), .rows = uint32_t(hidden), .columns = uint32_t(rows), .passes = narrow.passes};
  dispatch(gpu, {"matvec", "expert_down"}, constants_of(w.down_proj, narrow),
           {in(*s.activated), out(*s.expert_out), slots, pairs}, down, {narrow.groups(hidden), count}, narrow.threads);
  gpu.device.barrier();
}

// The address of a slot for kernels, which may follow it until the next wait.
uint64_t address_of(Gpu& gpu, const std::byte* slot) {
  const MemoryMap::Place place = gpu.memory.find(slot);
  gpu.device.use(*place.memory);
  return place.memory->address() + place.offset;
}

// Some experts of a long chunk, and the rows of their tokens, of which there are at most mlp_rows.
struct Batch {
  std::vector<ExpertTile> tiles;
  std::vector<uint64_t> slots;   // by tile
  std::vector<uint32_t> tokens;  // by row
  std::vector<int32_t> row_of;   // by token and place, -1: not among them
};

void tile_pairs(Gpu& gpu, const MlpWeights& w, const Batch& batch, int tokens) {
  const Scratch& s = gpu.scratch;
  const int64_t hidden = w.gate_proj.cols, rows = w.gate_proj.rows;
  const uint32_t k = uint32_t(gpu.config.num_experts_per_tok), tiles = uint32_t(batch.tiles.size());
  Lists lists;
  const uint64_t tile_begin = lists.add(batch.tiles), slot_begin = lists.add(batch.slots);
  const uint64_t token_begin = lists.add(batch.tokens), row_begin = lists.add(batch.row_of);
  const Binding uploaded = upload(gpu, lists);
  const Binding tile_list = list_at(uploaded, tile_begin), slot_list = list_at(uploaded, slot_begin);
  const Binding token_list = list_at(uploaded, token_begin), row_list = list_at(uploaded, row_begin);

  const auto multiply = [&](std::span<const Projection> matrices, Binding x, bool gather, Binding y,
                            uint32_t y_stride) {
    MatmulArgs args{};
    const uint32_t groups = list_matrices(gpu, matrices, 0, kTile, args.matrices);
    args.columns = uint32_t(matrices[0].matrix->cols);
    args.x_stride = args.columns;
    args.y_stride = y_stride;
    args.gather = gather;
    std::vector<Constant> constants = encoding(*matrices[0].matrix, 0, true);
    constants.push_back({kConstPooled, kListed});
    constants.push_back({kConstMatrix, gpu.device.matrix_units()});
    dispatch(gpu, {"matmul", "matmul"}, constants, {in(*s.h), x, y, slot_list, tile_list, token_list}, args,
             {groups, tiles}, kMatmulThreads);
  };
  multiply(std::array{Projection{&w.gate_proj, 0}, Projection{&w.up_proj, uint32_t(rows)}}, in(*s.h), true,
           out(*s.gate_up), uint32_t(2 * rows));
  gpu.device.barrier();
  dispatch(gpu, {"experts", "silu_mul"}, {}, {in(*s.gate_up), out(*s.activated)}, SiluMulArgs{uint32_t(rows)},
           {ceil_div(rows, kElementThreads), uint32_t(batch.tokens.size())}, kElementThreads);
  gpu.device.barrier();
  multiply(std::array{Projection{&w.down_proj, 0}}, in(*s.activated), false, out(*s.expert_out), uint32_t(hidden));
  gpu.device.barrier();
  dispatch(gpu, {"experts", "add_experts"}, {}, {out(*s.shared), in(*s.expert_out), row_list, in(*s.weights)},
           GatherArgs{uint32_t(hidden), k}, {ceil_div(hidden, kElementThreads), uint32_t(tokens)}, kElementThreads);
  gpu.device.barrier();
}

}  // namespace

void place_experts(Gpu& gpu, int layer, std::span<const std::byte* const> slots, uint64_t version) {
  LayerSlots& known = gpu.layer_slots[size_t(layer)];
  if (known.version == version) return;
  // Nothing that is queued reads this layer's table: earlier chunks have been waited for.
  LayerSlots now{version, {}};
  std::vector<uint64_t> addresses;
  for (const std::byte* slot : slots) {
    const MemoryMap::Place place = gpu.memory.find(slot);
    addresses.push_back(place.memory->address() + place.offset);
    if (std::ranges::find(now.memories, place.memory.get()) == now.memories.end())
      now.memories.push_back(place.memory.get());
  }
  gpu.device.write(*gpu.scratch.slot_tables[size_t(layer)], 0, addresses.data(), addresses.size() * sizeof(uint64_t));
  known = std::move(now);
}

void routed_experts(Gpu& gpu, const MlpWeights& expert, int tokens) {
  check_experts(expert);
  for (const Memory* memory : gpu.layer_slots[size_t(gpu.layer)].memories) gpu.device.use(*memory);
  const Binding slots = in(*gpu.scratch.expert_slots);
  vector_pairs(gpu, expert, kRouted, slots, slots, uint32_t(tokens * gpu.config.num_experts_per_tok));
}

void experts(Gpu& gpu, const MlpWeights& expert, std::span<const ExpertWork> work, int tokens) {
  check_experts(expert);
  const int64_t k = gpu.config.num_experts_per_tok;
  if (tokens <= Backend::kUnorderedTokens) {
    std::vector<uint32_t> pairs;
    std::vector<uint64_t> slots;
    for (const ExpertWork& piece : work) {
      const uint64_t address = address_of(gpu, piece.slot);
      for (const ExpertToken& token : piece.tokens) {
        pairs.push_back(uint32_t(token.token * k + token.rank));
        slots.push_back(address);
      }
    }
    Lists lists;
    const uint64_t slot_begin = lists.add(slots), pair_begin = lists.add(pairs);
    const Binding uploaded = upload(gpu, lists);
    vector_pairs(gpu, expert, kListed, list_at(uploaded, slot_begin), list_at(uploaded, pair_begin),
                 uint32_t(pairs.size()));
    return;
  }
  const size_t most = size_t(mlp_rows(gpu.config, gpu.max_tokens));
  Batch batch;
  const auto begin_batch = [&] {
    batch.tiles.clear();
    batch.slots.clear();
    batch.tokens.clear();
    batch.row_of.assign(size_t(tokens * k), -1);
  };
  begin_batch();
  for (const ExpertWork& piece : work) {
    const uint64_t address = address_of(gpu, piece.slot);
    for (std::span<const ExpertToken> left = piece.tokens; !left.empty();) {
      if (batch.tokens.size() == most) {
        tile_pairs(gpu, expert, batch, tokens);
        begin_batch();
      }
      const size_t taken = std::min({left.size(), size_t(kTile), most - batch.tokens.size()});
      batch.tiles.push_back({uint32_t(batch.tokens.size()), uint32_t(taken)});
      batch.slots.push_back(address);
      for (const ExpertToken& token : left.first(taken)) {
        batch.row_of[size_t(token.token * k + token.rank)] = int32_t(batch.tokens.size());
        batch.tokens.push_back(uint32_t(token.token));
      }
      left = left.subspan(taken);
    }
  }
  if (!batch.tiles.empty()) tile_pairs(gpu, expert, batch, tokens);
}

}  // namespace swiftlet::gpu
