#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "backend/interleave.h"
#include "base/error.h"

namespace swiftlet {
namespace {

constexpr uint64_t kAlignment = 64;  // of every tensor in the arena: a cache line, a SIMD register

uint64_t align(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// Rows of a stored matrix, in the order they get in memory.
struct RowRun {
  int64_t begin, count;
};

// Places tensors in the arena one after the other. It walks the model twice: without memory, to measure and to check
// names and shapes, and with it, to read.
class Loader {
 public:
  Loader(const Qpack& qpack, const ModelConfig& config, std::byte* memory = nullptr, const Backend* backend = nullptr)
      : qpack_(qpack), config_(config), memory_(memory), backend_(backend) {
    for (const auto& [name, tensor] : qpack.resident.tensors()) tensors_[canonical_name(name)] = &tensor;
    for (const auto& [name, tensor] : tensors_)
      if (name.ends_with("conv1d.weight") && !tensor->shape.empty()) zero_centred_norms_ |= tensor->shape.back() != 1;
  }

  uint64_t bytes() const { return end_; }

  const TensorInfo* find(const std::string& name) const {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : it->second;
  }

  const TensorInfo& get(const std::string& name) const {
    const TensorInfo* tensor = find(name);
    if (!tensor) fail(ErrorKind::Container, file(), ": the tensor ", name, " is missing; repack the checkpoint");
    return *tensor;
  }

  // A vector of `size` values in f32, whatever its shape and float type.
  const float* vector(const std::string& name, int64_t size) { return vector(get(name), size, 0.0f); }

  // A norm's weight: Hugging Face stores w and multiplies by 1 + w; MLX stores the sum. The convolution's layout tells
  // which one a checkpoint has.
  const float* norm(const std::string& name, int64_t size) {
    return vector(get(name), size, zero_centred_norms_ ? 1.0f : 0.0f);
  }

  // The matrix `module`.weight with its scales, biases and bias. `runs` picks and orders rows; none: all of the `rows`.
  Matrix matrix(const std::string& module, int64_t rows, int64_t cols, const std::vector<RowRun>& runs = {}) {
    const TensorInfo& weight = get(module + ".weight");
    const TensorInfo* scales = find(module + ".scales");
    const TensorInfo* biases = find(module + ".biases");
    Matrix m = describe(module, rows, cols, weight, scales, biases);
    const std::vector<RowRun> order = runs.empty() ? std::vector<RowRun>{{0, rows}} : runs;
    m.rows = 0;
    for (const RowRun& run : order) m.rows += run.count;
    m.base = memory_;
    m.weight_offset = copy_rows(weight, m.weight_row_bytes(), order);
    if (scales) m.scales_offset = copy_rows(*scales, m.scale_row_bytes(), order);
    if (biases) m.biases_offset = copy_rows(*biases, m.scale_row_bytes(), order);
    m.interleaved = interleaves(m);
    if (m.interleaved) interleave(m, memory_);
    if (const TensorInfo* bias = find(module + ".bias")) {
      if (!runs.empty()) fail(ErrorKind::Container, file(), ": ", module, " has a bias, which is not supported there");
      m.bias = vector(*bias, rows, 0.0f);
    }
    return m;
  }

  Matrix describe(const std::string& module, int64_t rows, int64_t cols, const TensorInfo& weight,
                  const TensorInfo* scales, const TensorInfo* biases) const {
    const auto stored = [](const TensorInfo* t) { return t ? StoredTensor{t->dtype, t->shape} : StoredTensor{}; };
    const StoredTensor w = stored(&weight), s = stored(scales), b = stored(biases);
    const Matrix m =
        describe_matrix(file() + ": " + module, rows, cols, w, scales ? &s : nullptr, biases ? &b : nullptr);
    check_quantization(module, m);
    return m;
  }

  // The shapes decide; a config that says otherwise belongs to other weights.
  void check_quantization(const std::string& module, const Matrix& m) const {
    if (m.codec == Codec::Plain || !config_.has_quantization) return;
    const auto own = config_.quantization_overrides.find(module);
    const QuantizationEntry& entry = own == config_.quantization_overrides.end() ? config_.quantization : own->second;
    if ((entry.bits && entry.bits != m.bits) || (entry.group_size && entry.group_size != m.group_size))
      fail(ErrorKind::Container, qpack_.path, "/config.json: the quantization block says ", entry.bits,
           " bits in groups of ", entry.group_size, " for ", module, ", but its tensors hold ", m.bits,
           " bits in groups of ", m.group_size, ": config and weights do not belong together");
  }

  bool interleaves(const Matrix& m) const { return backend_ && backend_->interleaves(m); }

  std::string file() const { return qpack_.resident.path(); }

 private:
  uint64_t place(uint64_t bytes) {
    const uint64_t offset = end_;
    end_ = align(end_ + bytes);
    return offset;
  }

  uint64_t copy_rows(const TensorInfo& tensor, uint64_t row_bytes, const std::vector<RowRun>& runs) {
    uint64_t bytes = 0;
    for (const RowRun& run : runs) bytes += run.count * row_bytes;
    const uint64_t offset = place(bytes);
    if (!memory_) return offset;
    std::byte* out = memory_ + offset;
    for (const RowRun& run : runs) {
      qpack_.resident.read(tensor, run.begin * row_bytes, out, run.count * row_bytes);
      out += run.count * row_bytes;
    }
    return offset;
  }

  const float* vector(const TensorInfo& tensor, int64_t size, float add) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.shape) elements *= dim;
    if (elements != size)
      fail(ErrorKind::Container, file(), ": ", tensor.name, " has the shape ", shape_text(tensor.shape),
           ", but the config asks for ", size, " values");
    const uint64_t offset = place(size * sizeof(float));
    if (!memory_) return nullptr;
    std::vector<std::byte> raw(tensor.bytes);
    qpack_.resident.read(tensor, 0, raw.data(), raw.size());
    float* out = reinterpret_cast<float*>(memory_ + offset);
    for (int64_t i = 0; i < size; i++) {
      out[i] = element(tensor, raw.data(), i) + add;
      if (!std::isfinite(out[i]))
        fail(ErrorKind::Container, file(), ": ", tensor.name, " holds ", out[i], " at ", i,
             ": the file is damaged; run `swiftlet verify`");
    }
    return out;
  }

  float element(const TensorInfo& tensor, const std::byte* raw, int64_t i) const {
    uint16_t half;
    switch (tensor.dtype) {
      case DType::F32: {
        float value;
        std::memcpy(&value, raw + 4 * i, 4);
        return value;
      }
      case DType::BF16:
        std::memcpy(&half, raw + 2 * i, 2);
        return bf16_to_float(half);
      case DType::F16:
        std::memcpy(&half, raw + 2 * i, 2);
        return f16_to_float(half);
      default:
        fail(ErrorKind::Container, file(), ": ", tensor.name, " is ", name_of(tensor.dtype),
             ", but must be F32, F16 or BF16");
    }
  }

  const Qpack& qpack_;
  const ModelConfig& config_;
  std::byte* memory_;
  const Backend* backend_;                            // null without memory
  std::map<std::string, const TensorInfo*> tensors_;  // by canonical name
  bool zero_centred_norms_ = false;
  uint64_t end_ = 0;
};

// Qwen3-Next fuses the DeltaNet projections and groups their rows by key head:
//   in_proj_qkvz  for each key head: dk rows of q, dk of k, r * dv of v, r * dv of z   (r value heads share a key head)
//   in_proj_ba    for each key head: r rows of b, r of a
// Rows are independent, so they are put into the order of Qwen3.5 while they are read, and one DeltaNet serves both.
void load_fused_projections(Loader& load, const ModelConfig& c, const std::string& prefix, DeltaNetWeights& w) {
  const int64_t keys = c.linear_num_key_heads, dk = c.linear_key_head_dim;
  const int64_t r = c.linear_num_value_heads / keys, dv = r * c.linear_value_head_dim;
  const int64_t group = 2 * dk + 2 * dv;
  std::vector<RowRun> qkv, z, b, a;
  for (int64_t h = 0; h < keys; h++) qkv.push_back({h * group, dk});
  for (int64_t h = 0; h < keys; h++) qkv.push_back({h * group + dk, dk});
  for (int64_t h = 0; h < keys; h++) qkv.push_back({h * group + 2 * dk, dv});
  for (int64_t h = 0; h < keys; h++) z.push_back({h * group + 2 * dk + dv, dv});
  for (int64_t h = 0; h < keys; h++) b.push_back({h * 2 * r, r});
  for (int64_t h = 0; h < keys; h++) a.push_back({h * 2 * r + r, r});
  const int64_t qkvz_rows = keys * group, ba_rows = keys * 2 * r;
  w.in_proj_qkv = load.matrix(prefix + "in_proj_qkvz", qkvz_rows, c.hidden_size, qkv);
  w.in_proj_z = load.matrix(prefix + "in_proj_qkvz", qkvz_rows, c.hidden_size, z);
  w.in_proj_b = load.matrix(prefix + "in_proj_ba", ba_rows, c.hidden_size, b);
  w.in_proj_a = load.matrix(prefix + "in_proj_ba", ba_rows, c.hidden_size, a);
}

DeltaNetWeights load_delta_net(Loader& load, const ModelConfig& c, const std::string& layer) {
  const std::string prefix = layer + "linear_attn.";
  DeltaNetWeights w;
  w.input_norm = load.norm(layer + "input_layernorm.weight", c.hidden_size);
  if (load.find(prefix + "in_proj_qkvz.weight")) {
    load_fused_projections(load, c, prefix, w);
  } else {
    w.in_proj_qkv = load.matrix(prefix + "in_proj_qkv", c.conv_dim(), c.hidden_size);
    w.in_proj_z = load.matrix(prefix + "in_proj_z", c.value_dim(), c.hidden_size);
    w.in_proj_b = load.matrix(prefix + "in_proj_b", c.linear_num_value_heads, c.hidden_size);
    w.in_proj_a = load.matrix(prefix + "in_proj_a", c.linear_num_value_heads, c.hidden_size);
  }
  w.conv1d = load.vector(prefix + "conv1d.weight", c.conv_dim() * c.linear_conv_kernel_dim);
  w.A_log = load.vector(prefix + "A_log", c.linear_num_value_heads);
  w.dt_bias = load.vector(prefix + "dt_bias", c.linear_num_value_heads);
  w.norm = load.vector(prefix + "norm.weight", c.linear_value_head_dim);
  w.out_proj = load.matrix(prefix + "out_proj", c.hidden_size, c.value_dim());
  return w;
}

AttentionWeights load_attention(Loader& load, const ModelConfig& c, const std::string& layer) {
  const std::string prefix = layer + "self_attn.";
  const int64_t q_dim = int64_t(c.num_attention_heads) * c.head_dim,
                kv_dim = int64_t(c.num_key_value_heads) * c.head_dim;
  AttentionWeights w;
  w.input_norm = load.norm(layer + "input_layernorm.weight", c.hidden_size);
  w.q_proj = load.matrix(prefix + "q_proj", 2 * q_dim, c.hidden_size);
  w.k_proj = load.matrix(prefix + "k_proj", kv_dim, c.hidden_size);
  w.v_proj = load.matrix(prefix + "v_proj", kv_dim, c.hidden_size);
  w.o_proj = load.matrix(prefix + "o_proj", c.hidden_size, q_dim);
  if (c.attention_bias)
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) load.get(prefix + name + ".bias");
  w.q_norm = load.norm(prefix + "q_norm.weight", c.head_dim);
  w.k_norm = load.norm(prefix + "k_norm.weight", c.head_dim);
  return w;
}

MlpWeights load_mlp(Loader& load, const std::string& prefix, int64_t hidden, int64_t intermediate) {
  return {load.matrix(prefix + "gate_proj", intermediate, hidden),
          load.matrix(prefix + "up_proj", intermediate, hidden),
          load.matrix(prefix + "down_proj", hidden, intermediate)};
}

// One matrix of a routed expert, from the sections of its layer's blobs.
Matrix expert_matrix(const Qpack& qpack, const Loader& load, int layer, const std::string& name, int64_t rows,
                     int64_t cols) {
  const ExpertLayout& layout = qpack.layouts[layer];
  const std::string where = qpack.path + "/packed_experts/layout.json: " + name + " of layer " + std::to_string(layer);
  const Section* weight = layout.find(name + ".weight");
  const Section* scales = layout.find(name + ".scales");
  const Section* biases = layout.find(name + ".biases");
  if (!weight) fail(ErrorKind::Container, where, " is missing; repack the checkpoint");
  const auto stored = [](const Section* s) { return s ? StoredTensor{s->dtype, s->shape} : StoredTensor{}; };
  const StoredTensor w = stored(weight), s = stored(scales), b = stored(biases);
  Matrix m = describe_matrix(where, rows, cols, w, scales ? &s : nullptr, biases ? &b : nullptr);
  m.weight_offset = weight->offset;
  if (scales) m.scales_offset = scales->offset;
  if (biases) m.biases_offset = biases->offset;
  load.check_quantization("model.layers." + std::to_string(layer) + ".mlp.switch_mlp." + name, m);
  m.interleaved = load.interleaves(m);
  return m;
}

MoeWeights load_moe(Loader& load, const Qpack& qpack, const ModelConfig& c, int layer, const std::string& prefix) {
  MoeWeights w;
  w.post_attention_norm = load.norm(prefix + "post_attention_layernorm.weight", c.hidden_size);
  w.router = load.matrix(prefix + "mlp.gate", c.num_experts, c.hidden_size);
  w.shared_expert = load_mlp(load, prefix + "mlp.shared_expert.", c.hidden_size, c.shared_expert_intermediate_size);
  w.shared_expert_gate = load.matrix(prefix + "mlp.shared_expert_gate", 1, c.hidden_size);
  w.expert.gate_proj = expert_matrix(qpack, load, layer, "gate_proj", c.moe_intermediate_size, c.hidden_size);
  w.expert.up_proj = expert_matrix(qpack, load, layer, "up_proj", c.moe_intermediate_size, c.hidden_size);
  w.expert.down_proj = expert_matrix(qpack, load, layer, "down_proj", c.hidden_size, c.moe_intermediate_size);
  return w;
}

Embedding find_embedding(const Loader& load, const Qpack& qpack, const ModelConfig& c) {
  const std::string module = "model.embed_tokens";
  Embedding e;
  e.file = &qpack.resident;
  e.weight = &load.get(module + ".weight");
  e.scales = load.find(module + ".scales");
  e.biases = load.find(module + ".biases");
  e.table = load.describe(module, c.vocab_size, c.hidden_size, *e.weight, e.scales, e.biases);
  return e;
}

void load_model(Loader& load, const Qpack& qpack, const ModelConfig& c, ModelWeights& weights) {
  weights.layers.resize(c.num_hidden_layers);
  for (int i = 0; i < c.num_hidden_layers; i++) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    LayerWeights& layer = weights.layers[i];
    if (c.linear_layers[i])
      layer.delta_net = load_delta_net(load, c, prefix);
    else
      layer.attention = load_attention(load, c, prefix);
    if (c.moe_layers[i]) {
      layer.moe = load_moe(load, qpack, c, i, prefix);
    } else {
      layer.dense.post_attention_norm = load.norm(prefix + "post_attention_layernorm.weight", c.hidden_size);
      layer.dense.mlp = load_mlp(load, prefix + "mlp.", c.hidden_size, c.intermediate_size);
    }
  }
  weights.head.norm = load.norm("model.norm.weight", c.hidden_size);
  weights.embedding = find_embedding(load, qpack, c);
  weights.head.lm_head =
      load.matrix(c.tie_word_embeddings ? "model.embed_tokens" : "lm_head", c.vocab_size, c.hidden_size);
  if (c.tie_word_embeddings) weights.embedding.table = weights.head.lm_head;
}

void check_layers(const Qpack& qpack, const ModelConfig& c) {
  const std::string layout = qpack.path + "/packed_experts/layout.json";
  if (qpack.layer_count != c.num_hidden_layers)
    fail(ErrorKind::Container, layout, ": \"layerCount\" is ", qpack.layer_count,
         ", but config.json has num_hidden_layers ", c.num_hidden_layers);
  if (qpack.expert_count != c.num_experts)
    fail(ErrorKind::Container, layout, ": \"expertCount\" is ", qpack.expert_count,
         ", but config.json has num_experts ", c.num_experts);
  if (qpack.linear_layers != c.linear_layers)
    fail(ErrorKind::Container, layout, ": \"linearLayers\" disagrees with the layer types of config.json");
}

}  // namespace

uint64_t resident_weight_bytes(const Qpack& qpack, const ModelConfig& config) {
  check_layers(qpack, config);
  Loader measure(qpack, config);
  ModelWeights unused;
  load_model(measure, qpack, config, unused);
  return measure.bytes();
}

ModelWeights load_weights(const Qpack& qpack, const ModelConfig& config, const Backend& backend) {
  ModelWeights weights;
  weights.arena = PageMemory(resident_weight_bytes(qpack, config), /*huge_pages=*/true);
  Loader load(qpack, config, weights.arena.data(), &backend);
  load_model(load, qpack, config, weights);
  return weights;
}

bool orders_experts(const ModelWeights& weights) {
  return std::ranges::any_of(weights.layers, [](const LayerWeights& layer) {
    const MlpWeights& expert = layer.moe.expert;
    return expert.gate_proj.interleaved || expert.up_proj.interleaved || expert.down_proj.interleaved;
  });
}

uint64_t embedding_rows_bytes(const Embedding& e, int tokens) {
  const auto piece = [&](uint64_t row_bytes) { return align(uint64_t(tokens) * row_bytes); };
  return piece(e.table.weight_row_bytes()) + (e.scales ? piece(e.table.scale_row_bytes()) : 0) +
         (e.biases ? piece(e.table.scale_row_bytes()) : 0);
}

Matrix gather_embedding(const Embedding& e, std::span<const int32_t> ids, std::byte* memory) {
  Matrix rows = e.table;
  rows.rows = int64_t(ids.size());
  rows.base = memory;
  rows.interleaved = false;
  uint64_t end = 0;
  const auto gather = [&](const TensorInfo& tensor, uint64_t row_bytes, uint64_t table_offset, Element element) {
    const uint64_t offset = end;
    for (const int32_t id : ids) {
      if (e.table.interleaved)
        copy_row(e.table.base + table_offset, e.table.rows, id, row_bytes, element, memory + end);
      else if (e.table.base)
        std::memcpy(memory + end, e.table.base + table_offset + id * row_bytes, row_bytes);
      else
        e.file->read(tensor, id * row_bytes, memory + end, row_bytes);
      end += row_bytes;
    }
    end = align(end);
    return offset;
  };
  rows.weight_offset = gather(*e.weight, rows.weight_row_bytes(), e.table.weight_offset, codes_of(e.table));
  if (e.scales)
    rows.scales_offset = gather(*e.scales, rows.scale_row_bytes(), e.table.scales_offset, scales_of(e.table));
  if (e.biases)
    rows.biases_offset = gather(*e.biases, rows.scale_row_bytes(), e.table.biases_offset, scales_of(e.table));
  return rows;
}

}  // namespace swiftlet
