// The routed experts: each applied to the tokens that chose it.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/blocks.h"
#include "backend/cpu/thread_scratch.h"
#include "backend/interleave.h"

namespace swiftlet {
namespace {

constexpr size_t kMostTiles = 64;  // at once

// Some of an expert's tokens, where their rows begin in scratch.expert, and their h.
struct ExpertTile {
  std::byte* slot;
  bool* as_read;
  std::span<const ExpertToken> tokens;
  int64_t row;
  Activations h;
};

// Interleaves the experts that lie as they were read, just before their first products. All threads share the work: to
// do it where they were read would take a core away from one of these while the others wait for it.
void order(Cpu& cpu, const MlpWeights& expert, std::span<const ExpertTile> tiles) {
  const auto is_new = [](const ExpertTile& tile) { return tile.as_read && *tile.as_read; };
  std::array<std::byte*, kMostTiles> slots;
  int64_t count = 0;
  for (const ExpertTile& tile : tiles)
    if (is_new(tile)) slots[size_t(count++)] = tile.slot;
  if (count == 0) return;

  const Matrix* matrices[] = {&expert.gate_proj, &expert.up_proj, &expert.down_proj};
  const auto sets_of = [](const Matrix& w) { return w.interleaved ? w.rows / kSetRows : 0; };
  int64_t sets = 0;
  size_t scratch_bytes = 0;
  for (const Matrix* w : matrices) {
    sets += sets_of(*w);
    if (w->interleaved) scratch_bytes = std::max(scratch_bytes, kSetRows * size_t(w->weight_row_bytes()));
  }
  parallel(cpu, count * sets, 4, [&](int64_t i, int64_t end) {
    auto* scratch = reinterpret_cast<std::byte*>(thread_scratch(scratch_bytes / sizeof(float)));
    for (; i < end; ++i) {
      int64_t set = i % sets;
      const Matrix** w = matrices;
      for (; set >= sets_of(**w); ++w) set -= sets_of(**w);
      interleave_set(**w, slots[size_t(i / sets)], set, scratch);
    }
  });
  for (const ExpertTile& tile : tiles)
    if (is_new(tile)) *tile.as_read = false;
}

// The h of every tile's tokens: where route() left it if they follow each other there, as a single one does, else
// gathered in scratch.expert.
void gather(Cpu& cpu, const MlpWeights& expert, std::span<ExpertTile> tiles, int64_t rows) {
  const auto& s = cpu.scratch;
  const bool packed = gate_or_up_in_integers(cpu, expert);
  const bool floats = !in_integers(cpu, expert.gate_proj) || !in_integers(cpu, expert.up_proj);
  const int64_t hidden = cpu.config.hidden_size, bytes = packed_bytes(hidden);
  const Activations gathered = {s.expert.in, hidden, hidden, int(rows), packed ? s.expert.packed_in : nullptr};
  struct Row {
    int32_t from, to;
  };
  std::array<Row, kExpertRows> scattered;
  int64_t count = 0;
  for (ExpertTile& tile : tiles) {
    const int tokens = int(tile.tokens.size()), first = tile.tokens.front().token;
    if (tile.tokens.back().token - first == tokens - 1) {
      tile.h = h_of(cpu, packed, first, tokens);
      continue;
    }
    tile.h = gathered.part(tile.row, tokens);
    for (int t = 0; t < tokens; ++t) scattered[size_t(count++)] = {tile.tokens[size_t(t)].token, int32_t(tile.row) + t};
  }
  parallel(cpu, count, 16, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const auto [from, to] = scattered[size_t(i)];
      if (packed) std::memcpy(s.expert.packed_in + to * bytes, s.packed_h + from * bytes, size_t(bytes));
      if (floats) std::memcpy(s.expert.in + to * hidden, s.h + from * hidden, size_t(hidden) * sizeof(float));
    }
  });
}

// body(tile, first, last) for the rows begin .. end - 1 of the matrices of all tiles, one after the other, `rows` each.
template <class Body>
void each_expert(std::span<const ExpertTile> tiles, int64_t rows, int64_t begin, int64_t end, const Body& body) {
  while (begin < end) {
    const int64_t first = begin % rows, last = std::min(first + end - begin, rows);
    body(tiles[size_t(begin / rows)], first, last);
    begin += last - first;
  }
}

// Several experts in two parallel loops. Whatever the order of arrival, an element of y receives the same products in
// the same order: a short chunk keeps them by rank until end_moe, a long one is given its experts in ascending order.
void run_tiles(Cpu& cpu, const MlpWeights& expert, std::span<ExpertTile> tiles, int64_t rows, bool keep_by_rank) {
  const auto& s = cpu.scratch;
  const int64_t hidden = cpu.config.hidden_size, intermediate = expert.gate_proj.rows;
  const int64_t k = cpu.config.num_experts_per_tok;
  order(cpu, expert, tiles);
  gather(cpu, expert, tiles, rows);
  int most = 0;  // tokens of an expert
  for (const ExpertTile& tile : tiles) most = std::max(most, int(tile.tokens.size()));
  const auto parallel_rows = [&](int64_t count, bool packed, const auto& body) {
    parallel(cpu, count, row_grain(cpu, most, packed, count), body);
  };
  parallel_rows(int64_t(tiles.size()) * intermediate, tiles.front().h.packed, [&](int64_t begin, int64_t end) {
    each_expert(tiles, intermediate, begin, end, [&](const ExpertTile& tile, int64_t first, int64_t last) {
      gate_and_up(cpu, expert.at(tile.slot), tile.h, s.expert.gate + tile.row * padded(intermediate),
                  s.expert.up + tile.row * padded(intermediate), first, last);
    });
  });

  const Activations gate = activations(cpu, in_integers(cpu, expert.down_proj), s.expert.gate, intermediate,
                                       padded(intermediate), int(rows));
  const auto down = [&](const ExpertTile& tile, float* out, int64_t begin, int64_t end) {
    multiply(cpu, expert.down_proj.at(tile.slot), gate.part(tile.row, int(tile.tokens.size())), out, end - begin, begin,
             end);
  };
  if (keep_by_rank) {
    parallel_rows(int64_t(tiles.size()) * hidden, gate.packed, [&](int64_t begin, int64_t end) {
      each_expert(tiles, hidden, begin, end, [&](const ExpertTile& tile, int64_t first, int64_t last) {
        float* out = close_together(s.expert.out + tile.row * hidden, first, int64_t(tile.tokens.size()));
        down(tile, out, first, last);
        for (const ExpertToken& token : tile.tokens) {
          float* kept = s.expert_out + (token.token * k + token.rank) * hidden;
          for (int64_t i = first; i < last; ++i) kept[i] = token.weight * out[i];
          out += last - first;
        }
      });
    });
    for (const ExpertTile& tile : tiles)
      for (const ExpertToken& token : tile.tokens) s.expert_arrived[token.token * k + token.rank] = 1;
  } else {
    parallel_rows(hidden, gate.packed, [&](int64_t begin, int64_t end) {
      const int64_t columns = end - begin;
      for (const ExpertTile& tile : tiles) {
        float* out = close_together(s.expert.out, begin, rows) + tile.row * columns;
        down(tile, out, begin, end);
        for (const ExpertToken& token : tile.tokens) {
          cpu.ops.add_scaled(s.y + token.token * padded(hidden) + begin, out + begin, token.weight, columns);
          out += columns;
        }
      }
    });
  }
}

}  // namespace

void experts(Cpu& cpu, const MlpWeights& expert, std::span<const ExpertWork> work, int tokens) {
  const bool keep_by_rank = tokens <= Backend::kUnorderedTokens;
  const int64_t room = std::min<int64_t>(int64_t(tokens) * cpu.config.num_experts_per_tok, kExpertRows);
  std::array<ExpertTile, kMostTiles> tiles;
  size_t count = 0;
  int64_t rows = 0;
  const auto run = [&] {
    run_tiles(cpu, expert, std::span(tiles).first(count), rows, keep_by_rank);
    count = 0;
    rows = 0;
  };
  for (const ExpertWork& piece : work)
    for (std::span<const ExpertToken> left = piece.tokens; !left.empty();) {
      // An expert's tokens stay together where they can: its codes are read and unpacked once then.
      if (count == tiles.size() || (rows > 0 && rows + int64_t(left.size()) > room)) run();
      const size_t taken = std::min(left.size(), size_t(room - rows));
      tiles[count++] = {piece.slot, piece.as_read, left.first(taken), rows, {}};
      rows += int64_t(taken);
      left = left.subspan(taken);
    }
  if (count) run();
}

void end_moe(Cpu& cpu, int tokens) {
  const auto& s = cpu.scratch;
  const int64_t hidden = cpu.config.hidden_size, k = cpu.config.num_experts_per_tok;
  const bool kept_by_rank = tokens <= Backend::kUnorderedTokens;
  parallel(cpu, tokens, 4, [&](int64_t t, int64_t end) {
    for (; t < end; ++t) {
      float *x = s.x + t * hidden, *y = s.y + t * padded(hidden);
      for (int64_t slot = t * k; kept_by_rank && slot < (t + 1) * k; ++slot)
        if (s.expert_arrived[slot]) cpu.ops.add_scaled(y, s.expert_out + slot * hidden, 1.0f, hidden);
      cpu.ops.add_scaled(x, y, 1.0f, hidden);
    }
  });
}

}  // namespace swiftlet
