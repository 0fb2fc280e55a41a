// The gated attention mixer.
//
// A token's softmax runs over blocks of kPositionBlock positions that begin at absolute multiples of it; the blocks'
// results are joined in their order. So a single token can spread its blocks over the threads, and a tile of tokens can
// spread its tokens, with the same bits.
#include <algorithm>
#include <cmath>

#include "backend/cpu/blocks.h"
#include "backend/cpu/kv_cache.h"
#include "base/error.h"

namespace swiftlet {

Rotary::Rotary(int64_t position, int rotated, double theta) : dims(rotated) {
  for (int j = 0; j < dims / 2; ++j) {
    const double angle = double(position) * std::pow(theta, -2.0 * j / dims);
    cosine[j] = float(std::cos(angle));
    sine[j] = float(std::sin(angle));
  }
}

void Rotary::apply(float* head) const {
  const int half = dims / 2;
  for (int j = 0; j < half; ++j) {
    const float a = head[j], b = head[half + j];
    head[j] = a * cosine[j] - b * sine[j];
    head[half + j] = a * sine[j] + b * cosine[j];
  }
}

namespace {

// Where a head of a token lies in scratch: its query, with the gate behind it, and its output.
int64_t query_stride(const ModelConfig& c) { return padded(2 * int64_t(c.num_attention_heads) * c.head_dim); }
int64_t output_stride(const ModelConfig& c) { return padded(int64_t(c.num_attention_heads) * c.head_dim); }
float* query_at(const Cpu& cpu, int t, int head) {
  return cpu.scratch.attention.q + t * query_stride(cpu.config) + 2 * int64_t(head) * cpu.config.head_dim;
}
float* output_at(const Cpu& cpu, int t, int head) {
  return cpu.scratch.attention.out + t * output_stride(cpu.config) + int64_t(head) * cpu.config.head_dim;
}

// Tokens and query heads that are attended together in a prefill.
constexpr int kTokenBlock = 4, kHeadBlock = 8;
static_assert(kTokenBlock * kHeadBlock <= kQueryBlock);

// Norm and rotary of one token's queries and keys; its keys and values go to the cache.
void store_token(Cpu& cpu, const AttentionWeights& weights, KvCache& cache, int64_t position, int t) {
  const ModelConfig& c = cpu.config;
  const auto& s = cpu.scratch.attention;
  const int64_t dim = c.head_dim;
  const Rotary rotary(position, c.rotary_dim, c.rope_theta);
  for (int h = 0; h < c.num_attention_heads; ++h) {
    float* q = query_at(cpu, t, h);
    cpu.ops.rms_norm(q, weights.q_norm, dim, c.rms_norm_eps, q);
    rotary.apply(q);
  }
  for (int h = 0; h < c.num_key_value_heads; ++h) {
    const int64_t row = position * c.num_key_value_heads + h;
    float* k = s.k + (int64_t(t) * c.num_key_value_heads + h) * dim;
    cpu.ops.rms_norm(k, weights.k_norm, dim, c.rms_norm_eps, k);
    rotary.apply(k);
    store_kv_row(k, dim, cache.type, cache.keys.get(), cache.key_scales.get(), row);
    store_kv_row(s.v + (int64_t(t) * c.num_key_value_heads + h) * dim, dim, cache.type, cache.values.get(),
                 cache.value_scales.get(), row);
  }
}

// Query heads that are attended together: `heads` of each of `kv_heads` KV heads. They follow each other.
struct HeadBlock {
  int kv_head, kv_heads, first, heads;
  int count() const { return kv_heads * heads; }
};

// Blocks of at most `most` query heads: those of several KV heads, or some of one.
int head_blocks(const ModelConfig& c, int most) {
  const int shared = c.num_attention_heads / c.num_key_value_heads;
  if (shared > most) return c.num_key_value_heads * ((shared + most - 1) / most);
  const int together = most / shared;
  return (c.num_key_value_heads + together - 1) / together;
}

HeadBlock head_block(const ModelConfig& c, int most, int index) {
  const int shared = c.num_attention_heads / c.num_key_value_heads;
  if (shared > most) {
    const int blocks = (shared + most - 1) / most;
    const int kv_head = index / blocks, offset = index % blocks * most;
    return {kv_head, 1, kv_head * shared + offset, std::min(shared - offset, most)};
  }
  const int together = most / shared, kv_head = index * together;
  return {kv_head, std::min(together, c.num_key_value_heads - kv_head), kv_head * shared, shared};
}

// Heads of tokens first .. last - 1 over one block of positions, each up to its token's own. The first sees some of it.
void attend_block(Cpu& cpu, const KvCache& cache, int64_t position, int first, int last, const HeadBlock& heads,
                  int64_t block, float* m, float* l, float* out) {
  const ModelConfig& c = cpu.config;
  const int64_t begin = block * kPositionBlock;
  const Attend query = {.q = query_at(cpu, first, heads.first),
                        .q_stride = 2 * int64_t(c.head_dim),
                        .token_stride = query_stride(c),
                        .tokens = last - first,
                        .kv_heads = heads.kv_heads,
                        .heads = heads.heads,
                        .head_dim = c.head_dim,
                        .scale = 1.0f / std::sqrt(float(c.head_dim))};
  const int count = int(std::min<int64_t>(position + first + 1 - begin, kPositionBlock));
  cpu.ops.attend(query, kv_block(cache, begin, count, heads.kv_head, c.num_key_value_heads, c.head_dim), m, l, out);
}

// Joins a block's result to that of the blocks before it (m = -inf where there are none).
void join(float& m, float& l, float* out, float block_m, float block_l, const float* block_out, int64_t n) {
  const float top = block_m > m ? block_m : m;
  const float keep = std::exp(m - top), take = std::exp(block_m - top);
  for (int64_t i = 0; i < n; ++i) out[i] = out[i] * keep + block_out[i] * take;
  l = l * keep + block_l * take;
  m = top;
}

// The division of the softmax, and the output gate.
void finish_head(Cpu& cpu, int t, int head, float l) {
  const int64_t dim = cpu.config.head_dim;
  float* out = output_at(cpu, t, head);
  for (int64_t i = 0; i < dim; ++i) out[i] /= l;
  cpu.ops.sigmoid_mul(out, query_at(cpu, t, head) + dim, dim);
}

constexpr float kNothing = -INFINITY;

// A few tokens: the blocks of each spread over the threads.
void attend_blocks(Cpu& cpu, const KvCache& cache, int64_t position, int tokens) {
  const ModelConfig& c = cpu.config;
  const auto& s = cpu.scratch.attention;
  const int heads = c.num_attention_heads;
  const int64_t dim = c.head_dim;
  for (int t = 0; t < tokens; ++t) {
    const int64_t blocks = (position + t) / kPositionBlock + 1;
    // All heads of a block together read memory in one stream; where there are few blocks, threads need more pieces.
    const int most = blocks < 2 * cpu.pool.threads() ? kHeadBlock : kQueryBlock;
    const int groups = head_blocks(c, most);
    float* out = output_at(cpu, t, 0);
    std::fill(out, out + heads * dim, 0.0f);
    std::fill(s.m, s.m + heads, kNothing);
    std::fill(s.l, s.l + heads, 0.0f);
    for (int64_t first = 0; first < blocks; first += kPositionBlocks) {
      const int64_t count = std::min<int64_t>(blocks - first, kPositionBlocks);
      parallel(cpu, count * groups, 1, [&](int64_t item, int64_t end) {
        for (; item < end; ++item) {
          const int64_t block = item / groups;
          const HeadBlock group = head_block(c, most, int(item % groups));
          const int64_t part = block * heads + group.first;
          attend_block(cpu, cache, position, t, t + 1, group, first + block, s.part_m + part, s.part_l + part,
                       s.part + part * dim);
        }
      });
      parallel(cpu, heads, 1, [&](int64_t h, int64_t end) {
        for (; h < end; ++h)
          for (int64_t block = 0; block < count; ++block) {
            const int64_t part = block * heads + h;
            join(s.m[h], s.l[h], out + h * dim, s.part_m[part], s.part_l[part], s.part + part * dim, dim);
          }
      });
    }
    for (int h = 0; h < heads; ++h) finish_head(cpu, t, h, s.l[h]);
  }
}

// Tokens first .. last - 1 (at most kTokenBlock), one group of heads: keys and values of a block serve all of them.
void attend_tokens(Cpu& cpu, const KvCache& cache, int64_t position, int first, int last, const HeadBlock& group) {
  const ModelConfig& c = cpu.config;
  const int64_t dim = c.head_dim;
  const int heads = group.count();
  float m[kQueryBlock], l[kQueryBlock];
  float part_m[kQueryBlock], part_l[kQueryBlock], part[kQueryBlock * kMaxHeadDim];
  const auto output = [&](int t) { return output_at(cpu, t, group.first); };
  for (int t = first; t < last; ++t) std::fill(output(t), output(t) + heads * dim, 0.0f);
  std::fill_n(m, kQueryBlock, kNothing);
  std::fill_n(l, kQueryBlock, 0.0f);
  for (int64_t block = 0; block <= (position + last - 1) / kPositionBlock; ++block) {
    const int from =
        int(std::max<int64_t>(first, block * kPositionBlock - position));  // the tokens before see none of it
    attend_block(cpu, cache, position, from, last, group, block, part_m, part_l, part);
    for (int t = from, i = 0; t < last; ++t)
      for (int h = 0; h < heads; ++h, ++i) {
        const int query = (t - first) * heads + h;
        join(m[query], l[query], output(t) + h * dim, part_m[i], part_l[i], part + i * dim, dim);
      }
  }
  for (int t = first; t < last; ++t)
    for (int h = 0; h < heads; ++h) finish_head(cpu, t, group.first + h, l[(t - first) * heads + h]);
}

}  // namespace

void attention(Cpu& cpu, const AttentionWeights& weights, KvCache& cache, int64_t position, int tokens) {
  const ModelConfig& c = cpu.config;
  const auto& s = cpu.scratch.attention;
  if (position < 0 || position + tokens > cache.capacity)
    fail(ErrorKind::Input, "positions ", position, " to ", position + tokens - 1, " do not fit the KV cache of ",
         cache.capacity, " positions: open the session with a larger context");
  const int64_t kv_dim = int64_t(c.num_key_value_heads) * c.head_dim;
  for (int begin = 0; begin < tokens; begin += kTokenTile) {
    const int count = std::min(tokens - begin, kTokenTile);
    float* x = cpu.scratch.x + begin * c.hidden_size;
    norm_tokens(cpu, x, weights.input_norm, count, cpu.scratch.norm);
    project(cpu,
            {{&weights.q_proj, s.q, query_stride(c)}, {&weights.k_proj, s.k, kv_dim}, {&weights.v_proj, s.v, kv_dim}},
            cpu.scratch.norm, c.hidden_size, count);
    parallel(cpu, count, 1, [&](int64_t t, int64_t end) {
      for (; t < end; ++t) store_token(cpu, weights, cache, position + begin + t, int(t));
    });

    const int groups = head_blocks(c, kHeadBlock), threads = cpu.pool.threads();
    if (count * groups < 2 * threads) {
      attend_blocks(cpu, cache, position + begin, count);
    } else {
      // Blocks of tokens as large as leaves every thread some.
      const int block = std::clamp(count * groups / (4 * threads), 1, kTokenBlock);
      const int blocks = (count + block - 1) / block;
      parallel(cpu, int64_t(blocks) * groups, 1, [&](int64_t item, int64_t end) {
        for (; item < end; ++item) {
          const int first = int(item / groups) * block;
          attend_tokens(cpu, cache, position + begin, first, std::min(first + block, count),
                        head_block(c, kHeadBlock, int(item % groups)));
        }
      });
    }
    project_and_add(cpu, weights.o_proj, s.out, output_stride(c), count, x);
  }
}

}  // namespace swiftlet
