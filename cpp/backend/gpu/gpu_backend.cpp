#include "backend/gpu/gpu_backend.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/gpu/gpu.h"
#include "base/error.h"

namespace swiftlet {
namespace gpu {
namespace {

class GpuBuffer final : public Buffer {
 public:
  GpuBuffer(std::shared_ptr<Memory> memory, size_t bytes, Gpu& gpu)
      : memory_(std::move(memory)), bytes_(bytes), gpu_(gpu) {}
  ~GpuBuffer() override {
    if (host()) gpu_.memory.remove(host());
  }
  const Memory& memory() const { return *memory_; }
  size_t bytes() const override { return bytes_; }
  std::byte* host() override { return memory_->host(); }
  void clear() override {
    wait_for_all(gpu_);
    gpu_.device.clear(*memory_);
  }
  void read(uint64_t offset, void* to, size_t bytes) override {
    wait_for_all(gpu_);
    gpu_.device.read(*memory_, offset, to, bytes);
  }
  void write(uint64_t offset, const void* from, size_t bytes) override {
    wait_for_all(gpu_);
    gpu_.device.write(*memory_, offset, from, bytes);
  }

 private:
  std::shared_ptr<Memory> memory_;
  size_t bytes_;
  Gpu& gpu_;
};

// What registers and threadgroup memory of the kernels hold.
void check_supported(const ModelConfig& c) {
  const auto at_most = [](const char* name, int64_t value, int64_t most) {
    if (value > most)
      fail(ErrorKind::Input, name, " ", value, " is more than the GPU backend's ", most, ": use the CPU backend");
  };
  at_most("head_dim", c.head_dim, 512);
  if (c.head_dim % 4 != 0)
    fail(ErrorKind::Input, "head_dim ", c.head_dim,
         " is no multiple of 4, as the GPU backend wants: use the CPU backend");
  at_most("num_attention_heads / num_key_value_heads", c.num_attention_heads / std::max(c.num_key_value_heads, 1), 32);
  at_most("linear_key_head_dim", c.linear_key_head_dim, 256);
  at_most("num_experts", c.num_experts, kMaxExperts);
  at_most("num_experts_per_tok", c.num_experts_per_tok, kMaxExpertsPerToken);
  at_most("vocab_size", c.vocab_size, int64_t(kTopSegment) * 1024);
}

// Slots in the memory of a card.
class DeviceSlots final : public SlotHeap {
 public:
  explicit DeviceSlots(Gpu& gpu) : gpu_(gpu) {}
  std::byte* map(size_t bytes) override {
    std::shared_ptr<const Memory> memory = gpu_.device.allocate(bytes, Placement::Private);
    auto* base = reinterpret_cast<std::byte*>(memory->address());
    gpu_.memory.add(base, std::move(memory));
    return base;
  }
  void unmap(std::byte* base) override { gpu_.memory.remove(base); }
  std::shared_ptr<std::byte> staging(size_t bytes) override { return gpu_.device.staging(bytes); }
  void upload(std::byte* to, const std::byte* from, size_t bytes) override {
    const MemoryMap::Place place = gpu_.memory.find(to);
    gpu_.device.upload(*place.memory, place.offset, from, bytes);
  }
  void download(std::byte* to, const std::byte* from, size_t bytes) override {
    const MemoryMap::Place place = gpu_.memory.find(from);
    gpu_.device.download(*place.memory, place.offset, to, bytes);
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    const MemoryMap::Place target = gpu_.memory.find(to), source = gpu_.memory.find(from);
    gpu_.device.copy(*target.memory, target.offset, *source.memory, source.offset, bytes);
  }

 private:
  Gpu& gpu_;
};

class GpuBackend final : public Backend {
 public:
  GpuBackend(const ModelConfig& config, std::unique_ptr<Device> device)
      : device_(std::move(device)), gpu_{.config = config, .device = *device_} {}

  ~GpuBackend() override {
    try {
      finish();                        // before the memory that it uses goes
    } catch (const std::exception&) {  // the device has failed: nothing of it runs any more
    }
  }

  std::string description() const override { return device_->description(); }

  BackendCounters counters() const override {
    const Counters c = device_->counters();
    return {c.dispatches, c.commits, c.waits};
  }

  std::unique_ptr<Buffer> allocate(size_t bytes, bool shared) override {
    std::shared_ptr<Memory> memory =
        device_->allocate(std::max<size_t>(bytes, 16), shared ? Placement::Shared : Placement::Private);
    if (memory->host()) gpu_.memory.add(memory->host(), memory);
    return std::make_unique<GpuBuffer>(std::move(memory), bytes, gpu_);
  }
  void add_memory(const std::byte* base, size_t bytes) override { gpu_.memory.add(base, device_->wrap(base, bytes)); }
  void remove_memory(const std::byte* base) override { gpu_.memory.remove(base); }
  SlotHeap* slot_heap() override { return device_->own_memory() ? &slots_ : nullptr; }
  std::optional<DeviceMemory> device_memory() const override {
    const auto own = device_->own_memory();
    return own ? std::optional(DeviceMemory{own->overhead, own->available}) : std::nullopt;
  }

  void reserve(int max_tokens) override {
    if (max_tokens < 1) fail(ErrorKind::Input, "a chunk of ", max_tokens, " tokens: must be at least 1");
    finish();
    gpu_.max_tokens = 0;
    gpu_.scratch = {};  // the old one goes before the new one comes
    gpu_.scratch = make_scratch(gpu_.config, max_tokens, *device_);
    gpu_.max_tokens = max_tokens;
    gpu_.rotary_position = -1;
    gpu_.layer_slots.assign(size_t(gpu_.config.num_hidden_layers), {});
  }
  size_t scratch_bytes(int max_tokens) const override { return gpu::scratch_bytes(gpu_.config, max_tokens); }

  void embed(const Matrix& rows, int tokens) override {
    check_tokens(tokens);
    gpu_.tokens = tokens;
    gpu_.residual = Residual::None;
    const MemoryMap::Place place = gpu_.memory.find(rows.base);
    const EmbedArgs args{place_of(rows, 0), uint32_t(rows.cols)};
    const std::vector<Constant> constants = encoding(rows, place.offset, true);
    gpu::dispatch(gpu_, {"embed", "embed"}, constants, {in(*place.memory, place.offset, 1), out(*gpu_.scratch.x)}, args,
                  {ceil_div(rows.cols, 256), uint32_t(tokens)}, 256);
    device_->barrier();
  }

  void delta_net(const DeltaNetWeights& weights, DeltaNetState& state, int tokens) override {
    check_tokens(tokens);
    gpu::delta_net(gpu_, weights, memory_of(*state.conv), memory_of(*state.state), tokens);
  }

  void attention(const AttentionWeights& weights, KvCache& cache, int64_t position, int tokens) override {
    check_tokens(tokens);
    gpu::attention(gpu_, weights, cache, position, tokens);
  }

  void mlp(const DenseMlpWeights& weights, int tokens) override {
    check_tokens(tokens);
    norm(gpu_, weights.post_attention_norm, *gpu_.scratch.h, 0, tokens);
    gpu::mlp(gpu_, weights.mlp, *gpu_.scratch.sum, tokens);
    gpu_.residual = Residual::Sum;
  }

  void route(const MoeWeights& weights, int layer, int tokens, std::span<const std::byte* const> slots,
             uint64_t version) override {
    check_tokens(tokens);
    const Scratch& s = gpu_.scratch;
    norm(gpu_, weights.post_attention_norm, *s.h, 0, tokens);
    gpu_.layer = layer;
    if (!slots.empty()) place_experts(gpu_, layer, slots, version);
    const uint64_t first = first_route(layer);
    gpu::route(gpu_, weights, tokens,
               {*s.h, *s.router, out(*s.top_experts, first), out(*s.top_weights, first), out(*s.experts),
                out(*s.weights), out(*s.expert_slots)});
    routed_ = tokens;
    waited_ = false;
  }

  Routes routes(int layer) override {
    wait();
    waited_ = true;
    return read_routes(*gpu_.scratch.top_experts, *gpu_.scratch.top_weights, first_route(layer), routed_);
  }

  void guess(const MoeWeights& later, int tokens) override {
    check_tokens(tokens);
    const Scratch& s = gpu_.scratch;
    norm(gpu_, later.post_attention_norm, *s.guess_h, 0, tokens);
    gpu::route(gpu_, later, tokens,
               {*s.guess_h, *s.guess_router, out(*s.guessed_experts), out(*s.guessed_weights), out(*s.unread_experts),
                out(*s.unread_weights), out(*s.unread_slots)});
    guessed_ = tokens;
  }

  Routes guesses() override {
    wait();
    return read_routes(*gpu_.scratch.guessed_experts, *gpu_.scratch.guessed_weights, 0, guessed_);
  }

  void shared_expert(const MoeWeights& weights, int tokens) override {
    check_tokens(tokens);
    const Scratch& s = gpu_.scratch;
    gpu::mlp(gpu_, weights.shared_expert, *s.shared, tokens);
    if (tokens > kUnorderedTokens) {
      const ModelConfig& c = gpu_.config;
      gpu::dispatch(gpu_, {"experts", "scale_shared"}, {}, {out(*s.shared), in(*s.router, uint64_t(c.num_experts))},
                    SharedArgs{uint32_t(c.hidden_size), uint32_t(c.num_experts + 1)},
                    {ceil_div(c.hidden_size, 256), uint32_t(tokens)}, 256);
      device_->barrier();
    }
    if (waited_) device_->commit();  // under the reads of the misses
  }

  void experts(const MlpWeights& expert, std::span<const ExpertWork> work, int tokens) override {
    check_tokens(tokens);
    gpu::experts(gpu_, expert, work, tokens);
    device_->commit();  // under the reads of the next
  }

  bool follows_routes() const override { return true; }
  void routed_experts(const MlpWeights& expert, int tokens) override {
    check_tokens(tokens);
    gpu::routed_experts(gpu_, expert, tokens);
  }

  void end_moe(int tokens) override {
    gpu_.residual = tokens <= kUnorderedTokens ? Residual::Experts : Residual::Shared;
  }

  void logits(const HeadWeights& head, int first, int count, float* to) override {
    check_tokens(first + count);
    const Scratch& s = gpu_.scratch;
    const int64_t hidden = gpu_.config.hidden_size, vocab = head.lm_head.rows;
    norm(gpu_, head.norm, *s.h, first, count);
    for (int t = 0; t < count; ++t) {
      project(gpu_, std::array{Projection{&head.lm_head, 0}}, in(*s.h, uint64_t(first + t) * uint64_t(hidden)),
              uint32_t(hidden), out(*s.logits), uint32_t(vocab), 1);
      wait();
      device_->read(*s.logits, 0, to + t * vocab, size_t(vocab) * sizeof(float));
    }
  }

  int most_top_logits() const override { return kMaxTop; }
  TopLogits top_logits(const HeadWeights& head, int token, int count) override {
    check_tokens(token + 1);
    const Scratch& s = gpu_.scratch;
    const int64_t hidden = gpu_.config.hidden_size, vocab = head.lm_head.rows;
    count = int(std::min<int64_t>({count, kMaxTop, vocab}));
    norm(gpu_, head.norm, *s.h, token, 1);
    project(gpu_, std::array{Projection{&head.lm_head, 0}}, in(*s.h, uint64_t(token) * uint64_t(hidden)),
            uint32_t(hidden), out(*s.logits), uint32_t(vocab), 1);
    device_->barrier();
    const TopLogitsArgs args{uint32_t(vocab), kTopSegment, ceil_div(vocab, kTopSegment), uint32_t(count)};
    gpu::dispatch(gpu_, {"head", "top_segment"}, {},
                  {in(*s.logits), out(*s.top_values), out(*s.top_ids), out(*s.top_sums)}, args, {args.segments}, 256);
    device_->barrier();
    gpu::dispatch(gpu_, {"head", "top_logits"}, {},
                  {in(*s.top_values), in(*s.top_ids), in(*s.top_sums), out(*s.best_values), out(*s.best_ids)}, args, {},
                  32);
    wait();
    const auto* values = reinterpret_cast<const float*>(s.best_values->host());
    const auto* ids = reinterpret_cast<const int32_t*>(s.best_ids->host());
    TopLogits top;
    for (int i = 0; i < count; ++i) top.best.emplace_back(values[i], ids[i]);
    top.log_sum_exp = values[count];
    return top;
  }

  void hidden(float* to, int tokens) override {
    check_tokens(tokens);
    if (gpu_.residual != Residual::None) norm(gpu_, gpu_.last_norm, *gpu_.scratch.guess_h, 0, tokens);
    wait();
    device_->read(*gpu_.scratch.x, 0, to, size_t(tokens) * size_t(gpu_.config.hidden_size) * sizeof(float));
  }

  bool queues() const override { return true; }
  void finish() override { wait(); }

 private:
  void check_tokens(int tokens) const {
    if (tokens < 1 || tokens > gpu_.max_tokens)
      fail(ErrorKind::Input, "a chunk of ", tokens, " tokens, but the backend has room for ", gpu_.max_tokens);
  }

  // Element of `experts` and its like where a layer's routes begin.
  uint64_t first_route(int layer) const {
    if (gpu_.tokens > kUnorderedTokens) return 0;
    return uint64_t(layer) * uint64_t(std::min(gpu_.max_tokens, kUnorderedTokens)) *
           uint64_t(gpu_.config.num_experts_per_tok);
  }

  Routes read_routes(const Memory& experts, const Memory& weights, uint64_t first, int tokens) const {
    const int k = gpu_.config.num_experts_per_tok;
    const auto* ids = reinterpret_cast<const int32_t*>(experts.host()) + first;
    const auto* chosen = reinterpret_cast<const float*>(weights.host()) + first;
    const int64_t n = int64_t(tokens) * k;
    return {tokens, k, {ids, ids + n}, {chosen, chosen + n}};
  }

  void wait() { wait_for_all(gpu_); }

  std::unique_ptr<Device> device_;
  Gpu gpu_;
  DeviceSlots slots_{gpu_};
  int routed_ = 0, guessed_ = 0;  // tokens of the last route() and guess()
  bool waited_ = false;           // for what the last route() chose
};

}  // namespace

const Memory& memory_of(Buffer& buffer) { return static_cast<GpuBuffer&>(buffer).memory(); }

}  // namespace gpu

std::unique_ptr<Backend> make_gpu_backend(const ModelConfig& config, std::unique_ptr<gpu::Device> device) {
  gpu::check_supported(config);
  return std::make_unique<gpu::GpuBackend>(config, std::move(device));
}

}  // namespace swiftlet
