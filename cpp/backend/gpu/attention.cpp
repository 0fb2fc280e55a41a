// The gated attention mixer.
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/gpu/gpu.h"
#include "base/error.h"

namespace swiftlet::gpu {
namespace {

const char* attend_kernel(int head_dim) {
  return head_dim <= 128 ? "attend_128" : head_dim <= 256 ? "attend_256" : "attend_512";
}

const char* attend_tile_kernel(int head_dim) {
  return head_dim <= 32    ? "attend_tile_32"
         : head_dim <= 64  ? "attend_tile_64"
         : head_dim <= 128 ? "attend_tile_128"
                           : "attend_tile_256";
}

// Cosine and sine of position * theta^(-2j / dims), for the chunk's positions. In double, on the CPU: f32 angles are
// off by 2e-3 at position 100,000, and GPUs have no double.
void prepare_rotary(Gpu& gpu, int64_t position, int tokens) {
  if (gpu.rotary_position == position && gpu.rotary_tokens >= tokens) return;
  const int pairs = gpu.config.rotary_dim / 2;
  auto* angles = reinterpret_cast<float*>(gpu.scratch.rotary->host());
  for (int j = 0; j < pairs; ++j) {
    const double frequency = std::pow(gpu.config.rope_theta, -2.0 * j / gpu.config.rotary_dim);
    for (int t = 0; t < tokens; ++t) {
      const double angle = double(position + t) * frequency;
      angles[2 * (int64_t(t) * pairs + j)] = float(std::cos(angle));
      angles[2 * (int64_t(t) * pairs + j) + 1] = float(std::sin(angle));
    }
  }
  gpu.rotary_position = position;
  gpu.rotary_tokens = tokens;
}

// The most splits that one of the tokens has (split_positions in attention.metal). They grow in number with the
// position up to a.splits, then they get longer and fewer.
uint32_t most_splits(const AttendArgs& a) {
  const uint64_t all = uint64_t(a.block) * a.splits, last = a.position + a.tokens - 1;
  const uint64_t length = (last + all) / all * a.block;
  const bool longer = (a.position + all) / all * a.block != length;  // than those of the first token
  return longer ? a.splits : uint32_t(last / length) + 1;
}

constexpr uint32_t kJoinThreads = 128, kTileThreads = 128;
constexpr int kMostTileDim = 256;  // of a head, that attend_tile has room for

}  // namespace

void attention(Gpu& gpu, const AttentionWeights& w, KvCache& cache, int64_t position, int tokens) {
  const Scratch& s = gpu.scratch;
  const ModelConfig& c = gpu.config;
  if (position < 0 || position + tokens > cache.capacity)
    fail(ErrorKind::Input, "positions ", position, " to ", position + tokens - 1, " do not fit the KV cache of ",
         cache.capacity, " positions: open the session with a larger context");
  const uint32_t hidden = uint32_t(c.hidden_size), heads = uint32_t(c.num_attention_heads);
  const uint32_t kv_heads = uint32_t(c.num_key_value_heads), dim = uint32_t(c.head_dim);
  const uint32_t k = 2 * heads * dim, v = k + kv_heads * dim, stride = v + kv_heads * dim;
  const uint32_t kv_type = uint32_t(cache.type);
  const Memory &keys = memory_of(*cache.keys), &values = memory_of(*cache.values);
  const bool scaled = cache.type == KvType::Int8;
  const Memory& key_scales = scaled ? memory_of(*cache.key_scales) : *s.decay;
  const Memory& value_scales = scaled ? memory_of(*cache.value_scales) : *s.beta;

  prepare_rotary(gpu, position, tokens);
  norm(gpu, w.input_norm, *s.h, 0, tokens);
  for (int begin = 0; begin < tokens; begin += kMixerTile) {
    const int count = std::min(tokens - begin, kMixerTile);
    const uint64_t at = uint64_t(position + begin);
    project(gpu, std::array{Projection{&w.q_proj, 0}, Projection{&w.k_proj, k}, Projection{&w.v_proj, v}},
            in(*s.h, uint64_t(begin) * hidden), hidden, out(*s.projected), stride, count);
    gpu.device.barrier();
    const AttentionStoreArgs store{heads, kv_heads, dim, uint32_t(c.rotary_dim), stride, k, v, at, c.rms_norm_eps};
    dispatch(gpu, {"attention", "attention_store"}, std::array{Constant{kConstKvType, kv_type}},
             {out(*s.projected), weight(gpu, w.q_norm), weight(gpu, w.k_norm),
              in(*s.rotary, uint64_t(begin) * uint64_t(c.rotary_dim)), out(keys), out(values), out(key_scales),
              out(value_scales)},
             store, {heads + 2 * kv_heads, uint32_t(count)}, 32);
    gpu.device.barrier();

    const AttendArgs attend{.heads = heads,
                            .kv_heads = kv_heads,
                            .head_dim = dim,
                            .stride = stride,
                            .splits = kSplits,
                            .block = kSplitPositions,
                            .position = at,
                            .tokens = uint32_t(count),
                            .scale = 1.0f / std::sqrt(float(dim))};
    if (count > kVectorTokens && c.head_dim <= kMostTileDim) {
      dispatch(gpu, {"attention", attend_tile_kernel(c.head_dim)}, std::array{Constant{kConstKvType, kv_type}},
               {in(*s.projected), in(keys), in(values), in(key_scales), in(value_scales), out(*s.mixed)}, attend,
               {ceil_div(int64_t(count) * (heads / kv_heads), kQueryTile), kv_heads}, kTileThreads);
      gpu.device.barrier();
    } else {
      for (int first = 0; first < count; first += kVectorTokens) {
        AttendArgs some = attend;
        some.position = at + uint64_t(first);
        some.tokens = uint32_t(std::min(count - first, kVectorTokens));
        const Binding q = in(*s.projected, uint64_t(first) * stride);
        dispatch(gpu, {"attention", attend_kernel(c.head_dim)}, std::array{Constant{kConstKvType, kv_type}},
                 {q, in(keys), in(values), in(key_scales), in(value_scales), out(*s.part), out(*s.part_ml)}, some,
                 {most_splits(some), kv_heads, some.tokens}, 32 * (heads / kv_heads));
        gpu.device.barrier();
        dispatch(gpu, {"attention", "attend_join"}, std::array{Constant{kConstKvType, kv_type}},
                 {q, in(*s.part), in(*s.part_ml), out(*s.mixed, uint64_t(first) * heads * dim)}, some,
                 {heads, some.tokens}, kJoinThreads);
        gpu.device.barrier();
      }
    }
    project(gpu, std::array{Projection{&w.o_proj, 0}}, in(*s.mixed), heads * dim, out(*s.sum, uint64_t(begin) * hidden),
            hidden, count);
    gpu.device.barrier();
  }
  gpu.residual = Residual::Sum;
}

}  // namespace swiftlet::gpu
