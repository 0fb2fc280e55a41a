// The gated DeltaNet mixer.
#include <algorithm>
#include <array>
#include <string>

#include "backend/gpu/gpu.h"

namespace swiftlet::gpu {
namespace {

// The template of delta_rule for a head's key_dim.
const char* delta_rule_kernel(int key_dim) {
  return key_dim <= 32    ? "delta_rule_32"
         : key_dim <= 64  ? "delta_rule_64"
         : key_dim <= 128 ? "delta_rule_128"
                          : "delta_rule_256";
}

constexpr uint32_t kRuleRows = 4;       // of a head's state that a SIMD group holds
constexpr uint32_t kRuleThreads = 256;  // of a threadgroup that has a whole head
constexpr uint32_t kPartThreads = 128;  // of one that has a part of it

}  // namespace

void delta_net(Gpu& gpu, const DeltaNetWeights& w, const Memory& conv, const Memory& state, int tokens) {
  const Scratch& s = gpu.scratch;
  const ModelConfig& c = gpu.config;
  const uint32_t hidden = uint32_t(c.hidden_size), channels = uint32_t(c.conv_dim()), values = uint32_t(c.value_dim());
  const uint32_t heads = uint32_t(c.linear_num_value_heads);
  const uint32_t z = channels, b = z + values, a = b + heads, stride = a + heads;
  norm(gpu, w.input_norm, *s.h, 0, tokens);
  for (int begin = 0; begin < tokens; begin += kMixerTile) {
    const int count = std::min(tokens - begin, kMixerTile);
    project(gpu,
            std::array{Projection{&w.in_proj_qkv, 0}, Projection{&w.in_proj_z, z}, Projection{&w.in_proj_b, b},
                       Projection{&w.in_proj_a, a}},
            in(*s.h, uint64_t(begin) * hidden), hidden, out(*s.projected), stride, count);
    gpu.device.barrier();

    const DeltaPrepareArgs prepare{.key_heads = uint32_t(c.linear_num_key_heads),
                                   .value_heads = heads,
                                   .key_dim = uint32_t(c.linear_key_head_dim),
                                   .value_dim = uint32_t(c.linear_value_head_dim),
                                   .kernel_size = uint32_t(c.linear_conv_kernel_dim),
                                   .tokens = uint32_t(count),
                                   .in_stride = stride,
                                   .b = b,
                                   .a = a};
    dispatch(gpu, {"delta_net", "delta_prepare"}, {},
             {in(*s.projected), out(conv), weight(gpu, w.conv1d), weight(gpu, w.A_log), weight(gpu, w.dt_bias),
              out(*s.qkv), out(*s.decay), out(*s.beta)},
             prepare, {2 * prepare.key_heads + heads, uint32_t(count)}, 32);
    gpu.device.barrier();
    if (count > 1 && prepare.kernel_size > 1)
      dispatch(gpu, {"delta_net", "conv_save"}, {}, {in(*s.projected), out(conv)},
               ConvSaveArgs{channels, prepare.kernel_size, uint32_t(count), stride}, {ceil_div(channels, 256)}, 256);

    const bool whole_heads = count <= kVectorTokens;
    const DeltaRuleArgs rule{.key_heads = prepare.key_heads,
                             .value_heads = heads,
                             .key_dim = prepare.key_dim,
                             .value_dim = prepare.value_dim,
                             .tokens = uint32_t(count),
                             .z_stride = stride,
                             .z = z,
                             .norm = whole_heads,
                             .eps = c.rms_norm_eps};
    const uint32_t parts = whole_heads ? 1 : ceil_div(rule.value_dim, kPartThreads / 32 * kRuleRows);
    dispatch(gpu, {"delta_net", delta_rule_kernel(c.linear_key_head_dim)}, {},
             {out(state), in(*s.qkv), in(*s.decay), in(*s.beta), in(*s.projected), weight(gpu, w.norm), out(*s.mixed)},
             rule, {parts, heads}, whole_heads ? kRuleThreads : kPartThreads);
    gpu.device.barrier();
    if (!whole_heads) {
      dispatch(gpu, {"delta_net", "gated_norm"}, {}, {out(*s.mixed), in(*s.projected), weight(gpu, w.norm)}, rule,
               {heads, uint32_t(count)}, 32);
      gpu.device.barrier();
    }
    project(gpu, std::array{Projection{&w.out_proj, 0}}, in(*s.mixed), values, out(*s.sum, uint64_t(begin) * hidden),
            hidden, count);
    gpu.device.barrier();
  }
  gpu.residual = Residual::Sum;
}

}  // namespace swiftlet::gpu
