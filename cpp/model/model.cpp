#include "model/model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace swiftlet {
namespace {

// The tokens of a chunk, sorted by the experts they chose.
struct ExpertPlan {
  std::vector<int32_t> experts;     // chosen by at least one token, ascending
  std::vector<size_t> begin;        // of an expert's tokens in `tokens`, by expert id; one more at the end
  std::vector<ExpertToken> tokens;  // by expert, then by token
  std::span<const ExpertToken> of(int expert) const {
    return std::span(tokens).subspan(begin[expert], begin[expert + 1] - begin[expert]);
  }
};

// The experts that at least one token chose, ascending.
std::vector<int32_t> unique_experts(const Routes& routes) {
  std::vector<int32_t> experts = routes.experts;
  std::ranges::sort(experts);
  experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  return experts;
}

ExpertPlan plan_experts(const Routes& routes, int num_experts) {
  ExpertPlan plan;
  plan.begin.assign(num_experts + 1, 0);
  for (const int32_t e : routes.experts) plan.begin[e + 1]++;
  for (int e = 0; e < num_experts; e++) {
    if (plan.begin[e + 1]) plan.experts.push_back(e);
    plan.begin[e + 1] += plan.begin[e];
  }
  plan.tokens.resize(routes.experts.size());
  std::vector<size_t> next(plan.begin.begin(), plan.begin.end() - 1);
  for (int t = 0; t < routes.tokens; t++) {
    const auto chosen = std::span(routes.experts).subspan(size_t(t) * routes.k, routes.k);
    for (int i = 0; i < routes.k; i++) {
      const auto rank = std::ranges::count_if(chosen, [&](int32_t other) { return other < chosen[i]; });
      plan.tokens[next[chosen[i]]++] = {t, int32_t(rank), routes.weights[size_t(t) * routes.k + i]};
    }
  }
  return plan;
}

void check_finite(float logit) {
  if (!std::isfinite(logit))
    fail(ErrorKind::Numeric, "the model computed ", logit,
         " as a logit: its weights are damaged or hold NaN; run `swiftlet verify` on the container");
}

}  // namespace

Model::Model(const ModelConfig& config, const ModelWeights& weights, Backend& backend, ExpertStore& store,
             int max_tokens)
    : config_(config),
      weights_(weights),
      backend_(backend),
      store_(store),
      embedding_rows_(backend.allocate(embedding_rows_bytes(weights.embedding, max_tokens), /*shared=*/true)) {
  backend_.reserve(max_tokens);
}

Model::~Model() { abandon(); }

void Model::abandon() {
  try {
    backend_.finish();
  } catch (const std::exception&) {  // the device has failed: nothing of it runs any more
  }
  request_.reset();
  if (!followed_.empty()) store_.release_held();
  followed_.clear();
}

void Model::forward(ModelState& state, std::span<const int32_t> ids, const ForwardHooks& hooks,
                    std::span<const StateCopy> copies) {
  const int tokens = int(ids.size());
  copied_ = 0;
  finish();
  backend_.embed(gather_embedding(weights_.embedding, ids, embedding_rows_->host()), tokens);
  if (hooks.after_layer) hooks.after_layer(-1);
  for (int i = 0; i < config_.num_hidden_layers; i++) {
    if (hooks.before_layer) hooks.before_layer();
    const LayerWeights& layer = weights_.layers[i];
    if (config_.linear_layers[i])
      delta_net(i, state, tokens, copies);
    else
      backend_.attention(layer.attention, state.kv_caches[i], state.position, tokens);
    if (config_.moe_layers[i])
      moe(i, tokens, hooks);
    else
      backend_.mlp(layer.dense, tokens);
    if (hooks.after_layer) hooks.after_layer(i);
  }
  state.position += tokens;
}

void Model::delta_net(int layer, ModelState& state, int tokens, std::span<const StateCopy> copies) {
  const DeltaNetWeights& weights = weights_.layers[layer].delta_net;
  DeltaNetState& own = state.delta_nets[layer];
  if (copies.empty()) return backend_.delta_net(weights, own, tokens);
  int first = 0;
  for (const StateCopy& copy : copies) {
    backend_.delta_net_part(weights, own, first, copy.after - first);
    own.conv->read(0, copy.to + copied_, own.conv->bytes());
    own.state->read(0, copy.to + copied_ + own.conv->bytes(), own.state->bytes());
    first = copy.after;
  }
  backend_.delta_net_part(weights, own, first, tokens - first);
  copied_ += own.conv->bytes() + own.state->bytes();
}

void Model::moe(int layer, int tokens, const ForwardHooks& hooks) {
  const MoeWeights& weights = weights_.layers[layer].moe;
  const bool in_order = tokens > Backend::kUnorderedTokens;
  if (!in_order && backend_.follows_routes()) {
    if (const auto held = store_.hold(layer)) {
      followed_.push_back({layer, tokens});
      backend_.route(weights, layer, tokens, held->slots, held->version);
      backend_.shared_expert(weights, tokens);
      backend_.routed_experts(weights.expert, tokens);
      backend_.end_moe(tokens);
      return;
    }
  }
  backend_.route(weights, layer, tokens);
  // Guesses for the next layer ride along with the wait for this one's routes, or come after the reads have begun.
  const int guessed = guesses_next_layer(layer, tokens) ? layer + 1 : -1;
  if (guessed >= 0 && backend_.queues()) backend_.guess(weights_.layers[guessed].moe, tokens);
  const Routes routes = backend_.routes(layer);
  settle(hooks);
  if (hooks.after_route) hooks.after_route(layer, routes);
  const ExpertPlan plan = plan_experts(routes, config_.num_experts);

  request_.emplace(store_.request(layer, plan.experts, tokens));  // reads of the misses begin
  if (guessed >= 0) {
    if (!backend_.queues()) backend_.guess(weights_.layers[guessed].moe, tokens);
    store_.guess(guessed, unique_experts(backend_.guesses()));
  }
  backend_.shared_expert(weights, tokens);  // under them
  std::vector<ExpertWork> work;
  const auto compute = [&] {
    if (!work.empty()) backend_.experts(weights.expert, work, tokens);
    work.clear();
  };
  // Where calls are queued, slots stay pinned until the next wait, or until others need them.
  std::function<void()> finish;
  if (backend_.queues())
    finish = [&] {
      compute();
      backend_.finish();
    };
  // Hits first, then misses as they land. A GPU takes the misses of a few tokens together: what it could compute under
  // the reads is nothing beside them, and each call costs it dispatches.
  bool together = false;
  for (;;) {
    const std::vector<ReadyExpert> ready = request_->next(in_order, finish);
    if (ready.empty()) break;
    for (const ReadyExpert& e : ready) work.push_back({e.expert, e.slot, plan.of(e.expert), e.as_read});
    if (!together) compute();
    together = backend_.queues() && !in_order;
    if (hooks.between_experts) hooks.between_experts();
  }
  compute();
  backend_.end_moe(tokens);
}

// What the disk may do once the reads for this layer are done, while its experts and the next mixer compute. The many
// tokens of a long chunk choose much the same set of experts whether or not each guess is right, so there it always
// pays.
bool Model::guesses_next_layer(int layer, int tokens) const {
  if (!prefetch_ && tokens <= Backend::kUnorderedTokens) return false;
  return layer + 1 < config_.num_hidden_layers && config_.moe_layers[layer + 1];
}

// Everything queued has been waited for: slots may be given to others, and what the backend chose by itself is told.
void Model::settle(const ForwardHooks& hooks) {
  request_.reset();
  for (const auto& [layer, tokens] : followed_) {
    const Routes routes = backend_.routes(layer);
    store_.used(layer, unique_experts(routes), tokens);
    if (hooks.after_route) hooks.after_route(layer, routes);
  }
  if (!followed_.empty()) store_.release_held();
  followed_.clear();
}

void Model::finish(const ForwardHooks& hooks) {
  backend_.finish();
  settle(hooks);
}

void Model::logits(int first, int count, float* out, const ForwardHooks& hooks) {
  backend_.logits(weights_.head, first, count, out);
  settle(hooks);
  for (int64_t i = 0; i < count * config_.vocab_size; i++) check_finite(out[i]);
}

TopLogits Model::top_logits(int token, int count, const ForwardHooks& hooks) {
  TopLogits top = backend_.top_logits(weights_.head, token, count);
  settle(hooks);
  check_finite(top.log_sum_exp);
  return top;
}

}  // namespace swiftlet
