#include "model/state.h"

#include <numeric>

namespace swiftlet {
namespace {

size_t size_of(KvType type) { return type == KvType::F32 ? 4 : type == KvType::F16 ? 2 : 1; }

uint64_t kv_row_elements(const ModelConfig& config) { return uint64_t(config.num_key_value_heads) * config.head_dim; }

uint64_t conv_bytes(const ModelConfig& config) {
  return uint64_t(config.linear_conv_kernel_dim - 1) * config.conv_dim() * sizeof(float);
}

uint64_t recurrent_bytes(const ModelConfig& config) {
  return uint64_t(config.value_dim()) * config.linear_key_head_dim * sizeof(float);
}

}  // namespace

ModelState make_state(const ModelConfig& config, Backend& backend, int64_t context, KvType kv) {
  ModelState state;
  state.context = context;
  state.delta_nets.resize(config.num_hidden_layers);
  state.kv_caches.resize(config.num_hidden_layers);
  for (int i = 0; i < config.num_hidden_layers; i++) {
    if (config.linear_layers[i]) {
      state.delta_nets[i] = {backend.allocate(conv_bytes(config)), backend.allocate(recurrent_bytes(config))};
      continue;
    }
    KvCache& cache = state.kv_caches[i];
    cache.type = kv;
    cache.capacity = context;
    const uint64_t bytes = context * kv_row_elements(config) * size_of(kv);
    cache.keys = backend.allocate(bytes);
    cache.values = backend.allocate(bytes);
    if (kv == KvType::Int8) {
      const uint64_t scale_bytes = context * uint64_t(config.num_key_value_heads) * sizeof(float);
      cache.key_scales = backend.allocate(scale_bytes);
      cache.value_scales = backend.allocate(scale_bytes);
    }
  }
  return state;
}

void clear_state(ModelState& state) {
  state.position = 0;
  for (DeltaNetState& layer : state.delta_nets) {
    if (layer.conv) layer.conv->clear();
    if (layer.state) layer.state->clear();
  }
}

StateShape state_shape(const ModelConfig& config, KvType kv) {
  StateShape shape;
  for (int i = 0; i < config.num_hidden_layers; i++) {
    if (config.linear_layers[i]) {
      shape.delta_nets.insert(shape.delta_nets.end(), {conv_bytes(config), recurrent_bytes(config)});
      continue;
    }
    shape.kv_rows.insert(shape.kv_rows.end(), 2, kv_row_elements(config) * size_of(kv));
    if (kv == KvType::Int8) shape.kv_rows.insert(shape.kv_rows.end(), 2, config.num_key_value_heads * sizeof(float));
  }
  shape.delta_bytes = std::reduce(shape.delta_nets.begin(), shape.delta_nets.end());
  shape.row_bytes = std::reduce(shape.kv_rows.begin(), shape.kv_rows.end());
  return shape;
}

std::vector<Buffer*> delta_net_buffers(const ModelState& state) {
  std::vector<Buffer*> buffers;
  for (const DeltaNetState& layer : state.delta_nets)
    if (layer.state) buffers.insert(buffers.end(), {layer.conv.get(), layer.state.get()});
  return buffers;
}

std::vector<Buffer*> kv_buffers(const ModelState& state) {
  std::vector<Buffer*> buffers;
  for (const KvCache& layer : state.kv_caches) {
    if (!layer.keys) continue;
    buffers.insert(buffers.end(), {layer.keys.get(), layer.values.get()});
    if (layer.key_scales) buffers.insert(buffers.end(), {layer.key_scales.get(), layer.value_scales.get()});
  }
  return buffers;
}

uint64_t state_bytes(const ModelConfig& config, int64_t context, KvType kv) {
  const StateShape shape = state_shape(config, kv);
  return shape.delta_bytes + uint64_t(context) * shape.row_bytes;
}

}  // namespace swiftlet
