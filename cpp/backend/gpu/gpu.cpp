#include "backend/gpu/gpu.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace swiftlet::gpu {
namespace {

constexpr uint32_t kNormThreads = 512;
constexpr uint64_t kQuad = 16;  // bytes

}  // namespace

Binding weight(Gpu& gpu, const float* values) {
  const MemoryMap::Place place = gpu.memory.find(values);
  return {place.memory.get(), place.offset, false};
}

const Pipeline& find_pipeline(Gpu& gpu, const Kernel& kernel, std::span<const Constant> constants) {
  PipelineKey key{kernel.name, {}};
  for (size_t i = 0; i < constants.size(); ++i)
    key.second[i] = uint64_t(constants[i].index + 1) << 32 | constants[i].value;
  const Pipeline*& kept = gpu.pipelines[key];
  if (!kept) kept = &gpu.device.pipeline(kernel, constants);
  return *kept;
}

void wait_for_all(Gpu& gpu) {
  gpu.device.wait(gpu.device.commit());
  gpu.uploaded = 0;
}

Binding upload(Gpu& gpu, const Lists& lists) {
  const Scratch& s = gpu.scratch;
  const uint64_t quads = (lists.bytes().size() + kQuad - 1) / kQuad;
  if (gpu.uploaded + quads * kQuad > s.uploads->bytes()) wait_for_all(gpu);
  const uint64_t offset = gpu.uploaded;
  gpu.uploaded += quads * kQuad;
  std::memcpy(s.uploads->host() + offset, lists.bytes().data(), lists.bytes().size());
  if (!gpu.device.own_memory()) return {s.uploads.get(), offset, false};
  // Each threadgroup would ask for them across the bus.
  dispatch(gpu, {"copy", "copy"}, {}, {{s.uploads.get(), offset, false}, {s.uploaded.get(), offset, true}},
           CopyArgs{quads}, {ceil_div(int64_t(quads), kElementThreads)}, kElementThreads);
  gpu.device.barrier();
  return {s.uploaded.get(), offset, false};
}

void norm(Gpu& gpu, const float* norm_weight, const Memory& h, int first, int count) {
  const Scratch& s = gpu.scratch;
  const ModelConfig& c = gpu.config;
  const uint32_t k = uint32_t(c.num_experts_per_tok);
  uint32_t residual = kNone;
  Binding delta = in(*s.sum), gate = in(*s.router);
  switch (gpu.residual) {
    case Residual::None:
      break;
    case Residual::Sum:
      residual = kAdd;
      break;
    case Residual::Shared:
      residual = kAdd;
      delta = in(*s.shared);
      break;
    case Residual::Experts:
      residual = kExperts;
      delta = in(*s.expert_out);
      gate = in(*s.router, uint64_t(c.num_experts));
      break;
  }
  if (residual != kNone) {
    first = 0;
    count = gpu.tokens;
  }
  const uint64_t row = uint64_t(first) * uint64_t(c.hidden_size);
  const NormArgs args{uint32_t(c.hidden_size), k, uint32_t(c.num_experts + 1), c.rms_norm_eps};
  dispatch(gpu, {"norm", "norm"}, std::array{Constant{kConstResidual, residual}},
           {out(*s.x, row), weight(gpu, norm_weight), out(h, row), delta, in(*s.shared), gate, in(*s.weights)}, args,
           {uint32_t(count)}, kNormThreads);
  gpu.residual = Residual::None;
  gpu.last_norm = norm_weight;
  gpu.device.barrier();
}

void route(Gpu& gpu, const MoeWeights& w, int tokens, const RouteOutputs& to) {
  const ModelConfig& c = gpu.config;
  const uint32_t stride = uint32_t(c.num_experts + 1);
  project(gpu, std::array{Projection{&w.router, 0}, Projection{&w.shared_expert_gate, uint32_t(c.num_experts)}},
          in(to.h), uint32_t(c.hidden_size), out(to.logits), stride, tokens);
  gpu.device.barrier();
  const RouterArgs args{.experts = uint32_t(c.num_experts),
                        .experts_per_token = uint32_t(c.num_experts_per_tok),
                        .stride = stride,
                        .normalise = c.norm_topk_prob};
  dispatch(gpu, {"router", "route"}, {},
           {in(to.logits), to.top_experts, to.top_weights, to.experts, to.weights,
            in(*gpu.scratch.slot_tables[size_t(gpu.layer)]), to.slots},
           args, {uint32_t(tokens)}, 32);
  gpu.device.barrier();
}

}  // namespace swiftlet::gpu
