// The routed experts: each applied to the tokens that chose it.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/blocks.h"

namespace swiftlet {
namespace {

// Some of an expert's tokens, and where their rows begin in scratch.expert.
struct ExpertTile {
  const std::byte* slot;
  std::span<const ExpertToken> tokens;
  int64_t row;
};

// Several experts in two parallel loops. Whatever the order of arrival, an element of y receives the same products in
// the same order: a short chunk keeps them by rank until end_moe, a long one is given its experts in ascending order.
void run_tiles(Cpu& cpu, const MlpWeights& expert, std::span<const ExpertTile> tiles, int64_t rows, bool keep_by_rank) {
  const auto& s = cpu.scratch;
  const int64_t hidden = cpu.config.hidden_size, intermediate = expert.gate_proj.rows;
  const int64_t k = cpu.config.num_experts_per_tok;
  std::array<int32_t, kExpertRows> token_of;  // by row
  for (const ExpertTile& tile : tiles)
    std::ranges::transform(tile.tokens, token_of.begin() + tile.row, &ExpertToken::token);
  parallel(cpu, rows, 16, [&](int64_t row, int64_t end) {
    for (; row < end; ++row)
      std::memcpy(s.expert.in + row * hidden, s.h + token_of[size_t(row)] * hidden, size_t(hidden) * sizeof(float));
  });

  const Activations in = activations(cpu, gate_or_up_in_integers(cpu, expert), s.expert.in, hidden, hidden, int(rows));
  const int64_t all_rows = int64_t(tiles.size()) * intermediate;
  parallel(cpu, all_rows, row_grain(cpu, in, all_rows), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const ExpertTile& tile = tiles[size_t(begin / intermediate)];
      const int64_t first = begin % intermediate, last = std::min(first + end - begin, intermediate);
      gate_and_up(cpu, expert.at(tile.slot), in.part(tile.row, int(tile.tokens.size())),
                  s.expert.gate + tile.row * intermediate, s.expert.up + tile.row * intermediate, first, last);
      begin += last - first;
    }
  });

  const Activations gate =
      activations(cpu, in_integers(cpu, expert.down_proj), s.expert.gate, intermediate, intermediate, int(rows));
  parallel(cpu, hidden, row_grain(cpu, gate, hidden), [&](int64_t begin, int64_t end) {
    for (const ExpertTile& tile : tiles) {
      float* out = s.expert.out + tile.row * hidden;
      multiply(cpu, expert.down_proj.at(tile.slot), gate.part(tile.row, int(tile.tokens.size())), out, hidden, begin,
               end);
      for (const ExpertToken& token : tile.tokens) {
        if (keep_by_rank) {
          float* kept = s.expert_out + (token.token * k + token.rank) * hidden;
          for (int64_t i = begin; i < end; ++i) kept[i] = token.weight * out[i];
        } else {
          float* y = s.y + token.token * hidden;
          for (int64_t i = begin; i < end; ++i) y[i] += token.weight * out[i];
        }
        out += hidden;
      }
    }
  });
  if (keep_by_rank)
    for (const ExpertTile& tile : tiles)
      for (const ExpertToken& token : tile.tokens) s.expert_arrived[token.token * k + token.rank] = 1;
}

}  // namespace

void experts(Cpu& cpu, const MlpWeights& expert, std::span<const ExpertWork> work, int tokens) {
  const bool keep_by_rank = tokens <= Backend::kUnorderedTokens;
  const int64_t room = std::min<int64_t>(int64_t(tokens) * cpu.config.num_experts_per_tok, kExpertRows);
  std::array<ExpertTile, 64> tiles;
  size_t count = 0;
  int64_t rows = 0;
  const auto run = [&] {
    run_tiles(cpu, expert, std::span(tiles).first(count), rows, keep_by_rank);
    count = 0;
    rows = 0;
  };
  for (const ExpertWork& piece : work)
    for (std::span<const ExpertToken> left = piece.tokens; !left.empty();) {
      if (count == tiles.size() || rows == room) run();
      const size_t taken = std::min(left.size(), size_t(room - rows));
      tiles[count++] = {piece.slot, left.first(taken), rows};
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
      float *x = s.x + t * hidden, *y = s.y + t * hidden;
      for (int64_t slot = t * k; kept_by_rank && slot < (t + 1) * k; ++slot)
        if (s.expert_arrived[slot])
          for (int64_t i = 0; i < hidden; ++i) y[i] += s.expert_out[slot * hidden + i];
      for (int64_t i = 0; i < hidden; ++i) x[i] += y[i];
    }
  });
}

}  // namespace swiftlet
