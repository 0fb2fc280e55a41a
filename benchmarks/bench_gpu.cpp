// Bytes per second of the GPU's products with weight matrices, beside those of a plain copy on the same GPU, as JSON
// lines:
//   {"name": "head", "gigabytes_per_second": .., "of_copy": ..}
// head: 248,320 x 2,048 at 4 bits, one token. experts: gate, up and down of 256 experts of the 35B in pool slots, as
// a router chose them for tokens of 8 experts each. The weights are larger than any cache.
//
//     bench_gpu [cuda|metal|emulated]     (built with SWIFTLET_BENCHMARKS)
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backend/backends.h"
#include "backend/gpu/gpu.h"
#include "base/error.h"
#include "base/memory.h"

namespace swiftlet::gpu {
namespace {

constexpr int kRounds = 7, kTimes = 20;

// Median seconds of one run of what `queue` queues.
double seconds_of(Gpu& gpu, const std::function<void()>& queue) {
  std::vector<double> seconds;
  queue();
  wait_for_all(gpu);
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) queue();
    wait_for_all(gpu);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kTimes);
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRounds / 2);
  return seconds[kRounds / 2];
}

// A 4-bit matrix with groups of 64 and bf16 scales, whose pieces follow one another from `offset` on.
Matrix affine_matrix(int64_t rows, int64_t cols, const std::byte* base, uint64_t offset) {
  Matrix m{.codec = Codec::Affine, .dtype = DType::BF16, .bits = 4, .group_size = 64, .rows = rows, .cols = cols};
  m.base = base;
  m.weight_offset = offset;
  m.scales_offset = m.weight_offset + uint64_t(rows) * m.weight_row_bytes();
  m.biases_offset = m.scales_offset + uint64_t(rows) * m.scale_row_bytes();
  return m;
}
uint64_t matrix_bytes(const Matrix& m) { return uint64_t(m.rows) * (m.weight_row_bytes() + 2 * m.scale_row_bytes()); }

void report(const char* name, double bytes, double seconds, double copy) {
  std::printf("{\"name\": \"%s\", \"gigabytes_per_second\": %.1f, \"of_copy\": %.3f, \"microseconds\": %.2f}\n", name,
              bytes / seconds / 1e9, bytes / seconds / copy, seconds * 1e6);
  std::fflush(stdout);
}

void run(std::unique_ptr<Device> device) {
  ModelConfig c;  // what scratch is made for: the 35B, in a few layers
  c.vocab_size = 248320;
  c.hidden_size = 2048;
  c.num_hidden_layers = 1;
  c.linear_layers = {true};
  c.moe_layers = {true};
  c.num_attention_heads = 16;
  c.num_key_value_heads = 2;
  c.head_dim = 256;
  c.rotary_dim = 64;
  c.linear_num_key_heads = 16;
  c.linear_num_value_heads = 32;
  c.linear_key_head_dim = c.linear_value_head_dim = 128;
  c.linear_conv_kernel_dim = 4;
  c.num_experts = 256;
  c.num_experts_per_tok = 8;
  c.moe_intermediate_size = c.shared_expert_intermediate_size = 512;
  Gpu gpu{.config = c, .device = *device};
  gpu.layer_slots.resize(1);
  gpu.max_tokens = Backend::kUnorderedTokens;
  gpu.tokens = gpu.max_tokens;
  gpu.scratch = make_scratch(c, gpu.max_tokens, *device);
  std::printf("{\"device\": \"%s\"}\n", device->description().c_str());

  // A copy reads and writes: its bytes count twice.
  const size_t copied = size_t(1) << 30;
  const auto from = device->allocate(copied, Placement::Private), to = device->allocate(copied, Placement::Private);
  const double copy_seconds = seconds_of(gpu, [&] {
    dispatch(gpu, {"copy", "copy"}, {}, {in(*from), out(*to)}, CopyArgs{copied / 16}, {uint32_t(copied / 16 / 256)},
             256);
    gpu.device.barrier();
  });
  const double copy = 2.0 * double(copied) / copy_seconds;
  report("copy", 2.0 * double(copied), copy_seconds, copy);

  const auto* const base = reinterpret_cast<const std::byte*>(uintptr_t(1) << 40);  // a name, nobody follows it
  const Matrix head = affine_matrix(c.vocab_size, c.hidden_size, base, 0);
  gpu.memory.add(base, device->allocate(matrix_bytes(head), Placement::Private));
  report("head", double(matrix_bytes(head)),
         seconds_of(gpu,
                    [&] {
                      project(gpu, std::array{Projection{&head, 0}}, in(*gpu.scratch.h), uint32_t(c.hidden_size),
                              out(*gpu.scratch.logits), uint32_t(c.vocab_size), 1);
                      gpu.device.barrier();
                    }),
         copy);

  MlpWeights expert;
  expert.gate_proj = affine_matrix(c.moe_intermediate_size, c.hidden_size, nullptr, 0);
  expert.up_proj = affine_matrix(c.moe_intermediate_size, c.hidden_size, nullptr, matrix_bytes(expert.gate_proj));
  expert.down_proj = affine_matrix(c.hidden_size, c.moe_intermediate_size, nullptr, 2 * matrix_bytes(expert.gate_proj));
  const uint64_t slot_bytes = 2 * matrix_bytes(expert.gate_proj) + matrix_bytes(expert.down_proj);
  const auto* const slots = base + (uint64_t(1) << 39);
  gpu.memory.add(slots, device->allocate(slot_bytes * uint64_t(c.num_experts), Placement::Private));
  std::vector<const std::byte*> all;
  for (int e = 0; e < c.num_experts; ++e) all.push_back(slots + uint64_t(e) * slot_bytes);
  place_experts(gpu, 0, all, 1);
  std::vector<uint64_t> addresses;  // as the router leaves them
  for (const std::byte* slot : all) {
    const MemoryMap::Place place = gpu.memory.find(slot);
    addresses.push_back(place.memory->address() + place.offset);
  }
  device->write(*gpu.scratch.expert_slots, 0, addresses.data(), addresses.size() * sizeof(uint64_t));
  report("experts", double(slot_bytes) * c.num_experts,
         seconds_of(gpu, [&] { routed_experts(gpu, expert, c.num_experts / c.num_experts_per_tok); }), copy);
}

}  // namespace
}  // namespace swiftlet::gpu

int main(int argc, char** argv) {
  try {
    swiftlet::gpu::run(swiftlet::make_gpu_device(argc > 1 ? argv[1] : swiftlet::backend_names().front()));
  } catch (const swiftlet::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
