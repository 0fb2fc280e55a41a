#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/blocks.h"
#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/memory.h"

namespace swiftlet {
namespace {

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(size_t bytes) : memory_(bytes), bytes_(bytes) {}
  size_t bytes() const override { return bytes_; }
  std::byte* host() override { return memory_.data(); }
  void clear() override { std::memset(memory_.data(), 0, bytes_); }
  void read(uint64_t offset, void* to, size_t bytes) override { std::memcpy(to, memory_.data() + offset, bytes); }
  void write(uint64_t offset, const void* from, size_t bytes) override {
    std::memcpy(memory_.data() + offset, from, bytes);
  }

 private:
  PageMemory memory_;
  size_t bytes_;
};

// What the stack arrays of the kernels hold.
void check_supported(const ModelConfig& config) {
  if (config.head_dim > kMaxHeadDim)
    fail(ErrorKind::Input, "head_dim ", config.head_dim, " is more than the CPU backend's ", kMaxHeadDim);
  if (config.linear_conv_kernel_dim > kMaxConvKernel)
    fail(ErrorKind::Input, "linear_conv_kernel_dim ", config.linear_conv_kernel_dim, " is more than the CPU backend's ",
         kMaxConvKernel);
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const ModelConfig& config, int threads, const std::string& isa)
      : cpu_{config, ops_for(isa), ThreadPool(threads)} {}

  std::string description() const override {
    const int threads = cpu_.pool.threads();
    return std::string("cpu (") + cpu_.ops.name + ", " + std::to_string(threads) +
           (threads == 1 ? " thread)" : " threads)");
  }

  std::string arithmetic() const override {
    return std::string("cpu ") + cpu_.ops.name + (cpu_.ops.integers.pack ? ", 4 and 8 bits in whole numbers" : "");
  }

  bool interleaves(const Matrix& matrix) const override { return in_integers(cpu_, matrix); }

  std::unique_ptr<Buffer> allocate(size_t bytes, bool) override { return std::make_unique<HostBuffer>(bytes); }
  void add_memory(const std::byte*, size_t) override {}
  void remove_memory(const std::byte*) override {}

  void reserve(int max_tokens) override {
    if (max_tokens < 1) fail(ErrorKind::Input, "a chunk of ", max_tokens, " tokens: must be at least 1");
    max_tokens_ = 0;
    scratch_ = PageMemory();  // the old one goes before the new one comes
    scratch_ = PageMemory(scratch_bytes(max_tokens));
    cpu_.scratch = lay_out_scratch(cpu_.config, max_tokens, scratch_.data());
    max_tokens_ = max_tokens;
  }
  size_t scratch_bytes(int max_tokens) const override {
    return lay_out_scratch(cpu_.config, max_tokens, nullptr).bytes;
  }

  void embed(const Matrix& rows, int tokens) override {
    check_tokens(tokens);
    parallel(cpu_, tokens, 4, [&](int64_t t, int64_t end) {
      for (; t < end; ++t) dequantize_row(rows, t, cpu_.scratch.x + t * cpu_.config.hidden_size);
    });
  }

  void delta_net(const DeltaNetWeights& weights, DeltaNetState& state, int tokens) override {
    check_tokens(tokens);
    swiftlet::delta_net(cpu_, weights, state, 0, tokens);
  }
  bool delta_net_in_parts() const override { return true; }
  void delta_net_part(const DeltaNetWeights& weights, DeltaNetState& state, int first, int count) override {
    check_tokens(first + count);
    swiftlet::delta_net(cpu_, weights, state, first, count);
  }

  void attention(const AttentionWeights& weights, KvCache& cache, int64_t position, int tokens) override {
    check_tokens(tokens);
    swiftlet::attention(cpu_, weights, cache, position, tokens);
  }

  void mlp(const DenseMlpWeights& weights, int tokens) override {
    check_tokens(tokens);
    dense_mlp(cpu_, weights, tokens);
  }

  void route(const MoeWeights& weights, int, int tokens, std::span<const std::byte* const>, uint64_t) override {
    check_tokens(tokens);
    swiftlet::route(cpu_, weights, tokens, true, cpu_.scratch.route_experts, cpu_.scratch.route_weights);
    routed_ = tokens;
  }

  Routes routes(int) override {
    const int k = cpu_.config.num_experts_per_tok;
    const int32_t* ids = cpu_.scratch.route_experts;
    const float* weights = cpu_.scratch.route_weights;
    return {routed_, k, {ids, ids + routed_ * k}, {weights, weights + routed_ * k}};
  }

  void guess(const MoeWeights& later, int tokens) override {
    check_tokens(tokens);
    const int k = cpu_.config.num_experts_per_tok;
    guesses_ = {tokens, k, std::vector<int32_t>(size_t(tokens) * k), std::vector<float>(size_t(tokens) * k)};
    swiftlet::route(cpu_, later, tokens, false, guesses_.experts.data(), guesses_.weights.data());
  }
  Routes guesses() override { return std::move(guesses_); }

  void shared_expert(const MoeWeights& weights, int tokens) override {
    check_tokens(tokens);
    swiftlet::shared_expert(cpu_, weights, tokens);
  }

  void experts(const MlpWeights& expert, std::span<const ExpertWork> work, int tokens) override {
    check_tokens(tokens);
    swiftlet::experts(cpu_, expert, work, tokens);
  }

  void end_moe(int tokens) override {
    check_tokens(tokens);
    swiftlet::end_moe(cpu_, tokens);
  }

  void logits(const HeadWeights& head, int first, int count, float* out) override {
    check_tokens(first + count);
    const int64_t hidden = cpu_.config.hidden_size, vocab = head.lm_head.rows;
    for (int begin = 0; begin < count; begin += kTokenTile) {
      const int tile = std::min(count - begin, kTokenTile);
      norm_tokens(cpu_, cpu_.scratch.x + (first + begin) * hidden, head.norm, tile, cpu_.scratch.norm);
      project(cpu_, {{&head.lm_head, out + begin * vocab, vocab}}, cpu_.scratch.norm, hidden, tile);
    }
  }

  void hidden(float* out, int tokens) override {
    check_tokens(tokens);
    std::memcpy(out, cpu_.scratch.x, size_t(tokens) * cpu_.config.hidden_size * sizeof(float));
  }

 private:
  void check_tokens(int tokens) const {
    if (tokens < 1 || tokens > max_tokens_)
      fail(ErrorKind::Input, "a chunk of ", tokens, " tokens, but the backend has room for ", max_tokens_);
  }

  Cpu cpu_;
  PageMemory scratch_;
  int max_tokens_ = 0;
  int routed_ = 0;  // tokens of the last route()
  Routes guesses_;  // of the last guess()
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const ModelConfig& config, int threads, const std::string& isa) {
  check_supported(config);
  return std::make_unique<CpuBackend>(config, threads > 0 ? threads : available_cpus(), isa);
}

}  // namespace swiftlet
