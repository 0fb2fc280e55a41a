// The blocks of a layer on a GPU, as functions over what they share. Each queues its dispatches and returns.
//
// Every block begins with a norm of the residual stream, so what a block adds to it is left for that norm to add
// (Residual): one dispatch for both.
#pragma once

#include <array>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/gpu/device.h"
#include "backend/gpu/memory_map.h"
#include "backend/gpu/scratch.h"
#include "metal/kernel_args.h"

namespace swiftlet::gpu {

// What is still to be added to x.
enum class Residual : uint8_t {
  None,
  Sum,      // scratch.sum
  Shared,   // scratch.shared
  Experts,  // sigmoid(gate) * scratch.shared + weights * scratch.expert_out, of a short chunk
};

// Of a layer whose experts are all resident: which places its scratch.slot_tables has, and the memories they lie in.
// Not shared: what the pool gives back would stay. While the version is the same, they are there.
struct LayerSlots {
  uint64_t version = 0;
  std::vector<const Memory*> memories;
};

// A pipeline that was asked for before: its kernel's name, by address, and the values of its constants.
using PipelineKey = std::pair<const char*, std::array<uint64_t, 8>>;

struct Gpu {
  ModelConfig config;
  Device& device;
  MemoryMap memory{};
  Scratch scratch{};
  int max_tokens = 0;

  int tokens = 0;  // of the chunk
  Residual residual = Residual::None;
  const float* last_norm = nullptr;  // weight of the last norm
  int layer = 0;                     // of the last route()
  int64_t rotary_position = -1;      // what scratch.rotary holds: angles from this position on
  int rotary_tokens = 0;
  uint64_t uploaded = 0;  // bytes of scratch.uploads in use
  std::vector<LayerSlots> layer_slots{};
  std::map<PipelineKey, const Pipeline*> pipelines{};
};

// A place in a memory, for a kernel to read or write.
inline Binding in(const Memory& memory, uint64_t element = 0, size_t element_bytes = sizeof(float)) {
  return {&memory, element * element_bytes, false};
}
inline Binding out(const Memory& memory, uint64_t element = 0, size_t element_bytes = sizeof(float)) {
  return {&memory, element * element_bytes, true};
}
// Where a weight in announced memory lies.
Binding weight(Gpu& gpu, const float* values);

// Device::pipeline, with a look-up that costs little. `kernel` is made of string literals.
const Pipeline& find_pipeline(Gpu& gpu, const Kernel& kernel, std::span<const Constant> constants);

template <class Args>
void dispatch(Gpu& gpu, const Kernel& kernel, std::span<const Constant> constants,
              std::initializer_list<Binding> buffers, const Args& args, Grid groups, uint32_t threads) {
  gpu.device.dispatch(find_pipeline(gpu, kernel, constants), {buffers.begin(), buffers.size()}, &args, sizeof(args),
                      groups, threads);
}

inline uint32_t ceil_div(int64_t n, int64_t d) { return uint32_t((n + d - 1) / d); }

// Waits for everything that was queued.
void wait_for_all(Gpu& gpu);
// Lists for kernels, one after another.
class Lists {
 public:
  // Where it begins.
  template <class T>
  uint64_t add(const std::vector<T>& list) {
    const size_t begin = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(begin + list.size() * sizeof(T));
    std::memcpy(bytes_.data() + begin, list.data(), list.size() * sizeof(T));
    return begin;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};
// A copy of them that kernels queued from now on can read. Waits where there is no room for it.
Binding upload(Gpu& gpu, const Lists& lists);
inline Binding list_at(Binding lists, uint64_t begin) { return {lists.memory, lists.offset + begin, false}; }

// h[t] = rms_norm(x[t]) * weight of tokens first .. first + count - 1 (of all, if something is still to be added to x).
void norm(Gpu& gpu, const float* weight, const Memory& h, int first, int count);

// y[t, out ..] = W x[t] (+ bias)
struct Projection {
  const Matrix* matrix;
  uint32_t out;
};
// Several matrices applied to the same tokens. x: [tokens, cols], x_stride floats apart; y likewise.
void project(Gpu& gpu, std::span<const Projection> projections, Binding x, uint32_t x_stride, Binding y,
             uint32_t y_stride, int tokens);

// out[t] = down(silu(gate(h[t])) * up(h[t])), [T, hidden], of a shared expert or a dense MLP.
void mlp(Gpu& gpu, const MlpWeights& weights, const Memory& out, int tokens);

// As the methods of Backend of the same names.
void delta_net(Gpu& gpu, const DeltaNetWeights& weights, const Memory& conv, const Memory& state, int tokens);
void attention(Gpu& gpu, const AttentionWeights& weights, KvCache& cache, int64_t position, int tokens);
void experts(Gpu& gpu, const MlpWeights& expert, std::span<const ExpertWork> work, int tokens);
void routed_experts(Gpu& gpu, const MlpWeights& expert, int tokens);
// Where the experts of a layer lie, before its route(), so that routed_experts() finds them.
void place_experts(Gpu& gpu, int layer, std::span<const std::byte* const> slots, uint64_t version);

// The router's logits of x (or of what norm made of it, in h), top-k of them.
struct RouteOutputs {
  const Memory &h, &logits;
  Binding top_experts, top_weights;  // by falling weight
  Binding experts, weights, slots;   // by rising id
};
void route(Gpu& gpu, const MoeWeights& weights, int tokens, const RouteOutputs& outputs);

// The memory behind a Buffer that the GPU backend made.
const Memory& memory_of(Buffer& buffer);

// Encoding of a matrix as function constants, and where its pieces lie from a base.
std::vector<Constant> encoding(const Matrix& matrix, uint64_t base_offset, bool wide_input);
MatrixPlace place_of(const Matrix& matrix, uint64_t base_offset);
// Several matrices as an argument of kernels; returns their threadgroups, of rows_of_group rows each, one after
// another.
uint32_t list_matrices(Gpu& gpu, std::span<const Projection> matrices, uint64_t base_offset, uint32_t rows_of_group,
                       ProjectedMatrix* to);
bool same_encoding(const Matrix& a, const Matrix& b);

// How threadgroups share out the rows of a matrix: `lanes` of a SIMD group have a row together, and a threadgroup takes
// rows_per_pass rows at once, `passes` times.
constexpr uint32_t kMatmulThreads = 128, kElementThreads = 256;
struct RowSplit {
  uint32_t threads, lanes, rows_per_pass, passes;
  uint32_t groups(int64_t rows) const { return ceil_div(rows, rows_per_pass * passes); }
};
// For so many rows in all, `times` over.
RowSplit split_rows(int64_t columns, int64_t rows, int64_t times);

}  // namespace swiftlet::gpu
