#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backend/backends.h"
#include "base/error.h"
#include "base/memory.h"
#include "engine/identity.h"
#include "experts/host_tier.h"

namespace swiftlet {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLogitRows = 16;  // positions whose logits are computed at once
constexpr std::chrono::milliseconds kAskInterval{100};
// In a prefill without boundaries a snapshot is taken whenever so many tokens have passed: a prompt that was cut off
// goes on from there, and so does one that differs at its end.
constexpr int64_t kSnapshotInterval = 1024;

MemoryPlan plan_memory(const Qpack& qpack, const ModelConfig& config, const Backend& backend,
                       const EngineOptions& options) {
  if (options.chunk < 0 || options.chunk > 65536)
    fail(ErrorKind::Input, "chunk is ", options.chunk, ", but must lie between 1 and 65536");
  PlanInput in;
  in.ceiling = options.memory;
  if (const auto device = backend.device_memory()) {
    in.available = device->available;
    in.process = device->used;
  } else {
    if (options.host_memory)
      fail(ErrorKind::Input, "host_memory is for a card with memory of its own: the experts of ", backend.description(),
           " are in the host's memory already, give it more of that by memory");
    in.available = available_memory_bytes();
    in.process = resident_set_bytes();
  }
  in.resident = resident_weight_bytes(qpack, config);
  in.state_fixed = state_bytes(config, 0, options.kv);
  in.state_per_token = state_bytes(config, 1, options.kv) - in.state_fixed;
  in.context = options.context;
  in.max_context = config.max_position_embeddings;
  in.chunk = options.chunk;
  in.scratch = [&](int chunk) {
    const uint64_t embedding_rows = uint64_t(chunk) * config.hidden_size * sizeof(float);  // at most f32
    const uint64_t routing = uint64_t(chunk) * config.num_experts_per_tok * 4 * sizeof(float);
    // Logits, and the sampler's copy, candidates, likeliest and flags.
    const uint64_t logits = uint64_t(config.vocab_size) * (2 * sizeof(float) + 2 * 8 + 1);
    return backend.scratch_bytes(chunk) + embedding_rows + routing + logits;
  };
  in.slot = qpack.max_stride;
  for (const ExpertLayout& layout : qpack.layouts)
    if (layout.stride) in.experts += qpack.expert_count;
  in.experts_per_tok = config.num_experts_per_tok;
  in.max_slots = options.pool_slots;
  in.host = options.host_memory;
  in.host_available = available_memory_bytes();
  in.host_least_slots = HostTier::least_slots(options.io_threads);
  in.snapshots = options.state_memory;
  return make_plan(in);
}

ModelConfig read_config(const Qpack& qpack) {
  return parse_config(qpack.config_json, qpack.generation_json, qpack.path + "/config.json");
}

ExpertStats difference(const ExpertStats& now, const ExpertStats& before) {
  ExpertStats d;
  d.hits = now.hits - before.hits;
  d.misses = now.misses - before.misses;
  d.bytes_read = now.bytes_read - before.bytes_read;
  d.reads = now.reads - before.reads;
  d.host_hits = now.host_hits - before.host_hits;
  d.host_bytes = now.host_bytes - before.host_bytes;
  d.evictions = now.evictions - before.evictions;
  d.guesses = now.guesses - before.guesses;
  d.guess_hits = now.guess_hits - before.guess_hits;
  d.wait_seconds = now.wait_seconds - before.wait_seconds;
  return d;
}

void add(ExpertStats& sum, const ExpertStats& more) {
  sum.hits += more.hits;
  sum.misses += more.misses;
  sum.bytes_read += more.bytes_read;
  sum.reads += more.reads;
  sum.host_hits += more.host_hits;
  sum.host_bytes += more.host_bytes;
  sum.evictions += more.evictions;
  sum.guesses += more.guesses;
  sum.guess_hits += more.guess_hits;
  sum.wait_seconds += more.wait_seconds;
}

// Adds what happens during its life to a phase.
class PhaseTimer {
 public:
  PhaseTimer(PhaseStats& phase, const ExpertStore& store)
      : phase_(phase), store_(store), before_(store.stats()), start_(Clock::now()) {}
  ~PhaseTimer() {
    phase_.seconds += std::chrono::duration<double>(Clock::now() - start_).count();
    add(phase_.experts, difference(store_.stats(), before_));
  }

 private:
  PhaseStats& phase_;
  const ExpertStore& store_;
  ExpertStats before_;
  Clock::time_point start_;
};

void ask(const Interrupt& interrupt) {
  if (interrupt && interrupt()) fail(ErrorKind::Cancelled, "the prefill was interrupted");
}

}  // namespace

MemoryPlan plan_container(const std::string& path, const EngineOptions& options) {
  const Qpack qpack = open_qpack(path);
  const ModelConfig config = read_config(qpack);
  return plan_memory(qpack, config, *make_backend(config, options.backend), options);
}

// ComputeLock --------------------------------------------------------------------------------------------------------

ComputeLock::ComputeLock(Engine& engine) : engine_(engine) {
  if (engine.computing_.load() == std::this_thread::get_id())
    fail(ErrorKind::Input, "the engine is computing: it cannot be used from inside its own callback");
  engine.compute_.lock();
  engine.computing_.store(std::this_thread::get_id());
}

ComputeLock::~ComputeLock() {
  engine_.computing_.store({});
  engine_.compute_.unlock();
}

// Session -------------------------------------------------------------------------------------------------------------

Session::Session(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {
  state_ = make_state(engine_->config_, *engine_->backend_, engine_->plan_.context, engine_->options_.kv);
  engine_->add_sessions(1);  // before the state's pages are touched
}

Session::~Session() {
  {
    const std::lock_guard lock(engine_->compute_);
    engine_->snapshots_->keep_rows(state_, 0);
  }
  state_ = {};
  engine_->add_sessions(-1);
}

void Session::reset() {
  const ComputeLock lock(*engine_);
  engine_->snapshots_->keep_rows(state_, 0);
  clear();
}

void Session::clear() {
  tokens_.clear();
  clear_state(state_);
  valid_ = true;
  turn_ = 0;
  generation_++;
}

// Generation ----------------------------------------------------------------------------------------------------------

Generation::Generation(std::shared_ptr<Session> session, std::vector<int32_t> prompt, const SamplingParams& params,
                       std::vector<Boundary> boundaries)
    : session_(std::move(session)),
      prompt_(std::move(prompt)),
      boundaries_(std::move(boundaries)),
      params_(params),
      sampler_(params, prompt_, session_->engine_->config().vocab_size) {
  stats_.prompt_tokens = int64_t(prompt_.size());
  std::erase_if(boundaries_, [&](const Boundary& b) { return b.position < 1 || b.position >= stats_.prompt_tokens; });
  std::ranges::sort(boundaries_, {}, &Boundary::position);
}

void Generation::prefill(const Interrupt& interrupt, const ReadLogits& read) {
  Engine& engine = *session_->engine_;
  engine.resume(*session_, prompt_);
  number_ = ++session_->generation_;
  session_->turn_ = boundaries_.empty() ? int64_t(prompt_.size()) : boundaries_.back().position;
  stats_.cached_tokens = session_->position();

  const int64_t total = int64_t(prompt_.size());
  const double layers = double(engine.config_.num_hidden_layers), tokens = double(total - session_->position());
  int64_t begin = session_->position(), end = begin;  // of the chunk
  double layer = 0;
  ForwardHooks hooks;
  auto asked = Clock::now();
  const auto ask_now = [&] {
    ask(interrupt);
    asked = Clock::now();
  };
  hooks.before_layer = [&] {
    progress_ = (double(stats_.prefill.tokens) + double(end - begin) * layer++ / layers) / tokens;
    ask_now();
  };
  // A layer of a long chunk takes seconds when its experts have to be read.
  hooks.between_experts = [&] {
    if (Clock::now() - asked > kAskInterval) ask_now();
  };
  const PhaseTimer timer(stats_.prefill, *engine.store_);
  SnapshotStore& snapshots = *engine.snapshots_;
  auto boundary = std::ranges::upper_bound(boundaries_, begin, {}, &Boundary::position);
  int64_t kept = begin;  // the last snapshot
  for (; begin < total; begin = end) {
    end = std::min(begin + engine.plan_.chunk, total);
    std::vector<SnapshotStore::Place> places;
    std::vector<StateCopy> copies;
    while (boundary != boundaries_.end() && boundary->position < end) {
      const auto before = std::span(prompt_).first(size_t(boundary->position));
      SnapshotStore::Place place = snapshots.prepare(before, boundary->passing ? Keep::Passing : Keep::Turn);
      if (place.memory && engine.backend_->delta_net_in_parts()) {
        copies.push_back({int(boundary->position - begin), place.memory->delta_nets.data()});
        places.push_back(std::move(place));
        kept = boundary->position;
      } else if (place.memory || place.to_disk) {
        end = boundary->position;  // the chunk ends there
        break;
      }
      ++boundary;
    }
    layer = 0;
    const auto ids = std::span(prompt_).subspan(size_t(begin), size_t(end - begin));
    engine.feed(*session_, ids, end == total ? read : ReadLogits{}, hooks, copies);
    stats_.prefill.tokens += end - begin;
    for (SnapshotStore::Place& place : places) snapshots.commit(session_->state_, std::move(place));
    const bool at_boundary = boundary != boundaries_.end() && boundary->position == end;
    if (end == total || (!at_boundary && end - kept < kSnapshotInterval)) continue;
    const bool passing = !at_boundary || boundary->passing;
    snapshots.take(session_->state_, session_->tokens_, passing ? Keep::Passing : Keep::Turn);
    kept = end;
    if (at_boundary) ++boundary;
  }
  progress_ = 1;
}

bool Generation::is_end(int32_t id) const {
  const auto holds = [id](const auto& ids) { return std::ranges::find(ids, id) != ids.end(); };
  return holds(params_.stop_token_ids) || (!params_.ignore_eos && holds(session_->engine_->config().eos_token_ids));
}

GeneratedToken Generation::next(const Interrupt& interrupt, std::span<const uint32_t> mask) {
  if (finished_) fail(ErrorKind::Input, "this generation has ended; start a new one");
  Engine& engine = *session_->engine_;
  GeneratedToken out;
  const ComputeLock lock(engine);
  // Where a few of the logits decide, a GPU finds them itself.
  const int candidates = mask.empty() ? sampler_.candidates() : 0;
  const bool few = candidates > 0 && candidates <= engine.backend_->most_top_logits();
  TopLogits top;
  const ReadLogits read = [&](int last, const ForwardHooks& hooks) {
    if (few)
      top = engine.model_->top_logits(last, candidates, hooks);
    else
      engine.model_->logits(last, 1, engine.logits_.data(), hooks);
  };
  const auto sample = [&] { return few ? sampler_.sample(top) : sampler_.sample(engine.logits_, mask); };
  try {
    if (!last_) {
      prefill(interrupt, read);
      out.token = sample();
    } else {
      if (session_->generation_ != number_)
        fail(ErrorKind::Input, "another generation or a reset has taken the session since: this one cannot go on");
      const PhaseStats before = stats_.decode;
      {
        const PhaseTimer timer(stats_.decode, *engine.store_);
        engine.feed(*session_, std::span(&*last_, 1), read, {});
      }
      const auto fetched = [](const ExpertStats& e) { return e.bytes_read + e.host_bytes; };
      engine.prefetch_.decoded(stats_.decode.seconds - before.seconds,
                               fetched(stats_.decode.experts) > fetched(before.experts));
      out.token = sample();
      stats_.decode.tokens++;
    }
  } catch (...) {
    finished_ = true;
    throw;
  }
  last_ = out.token.id;
  generated_++;
  if (is_end(out.token.id))
    out.finish = FinishReason::Stop;
  else if (generated_ >= params_.max_tokens || session_->position() >= session_->state_.context)
    out.finish = FinishReason::Length;
  finished_ = out.finish != FinishReason::None;
  return out;
}

// Engine --------------------------------------------------------------------------------------------------------------

std::shared_ptr<Engine> Engine::open(const std::string& path, const EngineOptions& options) {
  return std::shared_ptr<Engine>(new Engine(path, options));
}

Engine::Engine(const std::string& path, const EngineOptions& options)
    : qpack_(open_qpack(path)), config_(read_config(qpack_)), options_(options), prefetch_(options.prefetch) {
  if (options.io_threads < 1 || options.io_threads > 256)
    fail(ErrorKind::Input, "io_threads is ", options.io_threads, ", but must lie between 1 and 256");
  backend_ = make_backend(config_, options.backend);
  plan_ = plan_memory(qpack_, config_, *backend_, options);
  ceiling_ = plan_.ceiling;

  weights_ = load_weights(qpack_, config_, *backend_);
  backend_->add_memory(weights_.arena.data(), weights_.arena.bytes());
  if (backend_->device_memory() && !config_.tie_word_embeddings) weights_.arena.discard();  // the device has a copy

  ExpertStoreOptions store;
  store.budget_bytes = plan_.pool;
  store.io_threads = options.io_threads;
  store.io = options.io;
  store.on_memory_added = [this](const std::byte* base, size_t bytes) { backend_->add_memory(base, bytes); };
  store.on_memory_removed = [this](const std::byte* base) { backend_->remove_memory(base); };
  store.user_orders = orders_experts(weights_);
  store.heap = backend_->slot_heap();
  store.host_bytes = plan_.host;
  store_ = std::make_unique<ExpertStore>(qpack_, store, config_.num_experts_per_tok);

  model_ = std::make_unique<Model>(config_, weights_, *backend_, *store_, plan_.chunk);
  logits_.resize(config_.vocab_size);

  SnapshotOptions snapshots;
  snapshots.memory = plan_.snapshots;
  snapshots.folder = options.state_dir;
  snapshots.disk = options.state_disk;
  if (!options.state_dir.empty()) snapshots.identity = model_identity(qpack_, *backend_, options.kv);
  snapshots_ = std::make_unique<SnapshotStore>(state_shape(config_, options.kv), snapshots);
  if (!options.trace.empty()) trace_ = std::make_unique<RoutingTrace>(options.trace);
  // The memory of a card is not what the system runs short of.
  if (options.watch_pressure && !backend_->slot_heap())
    pressure_watch_ = std::make_unique<PressureWatch>([this] { relieve_pressure(); });
}

std::shared_ptr<Session> Engine::session() { return std::make_shared<Session>(shared_from_this()); }

std::unique_ptr<Generation> Engine::generate(std::shared_ptr<Session> session, std::vector<int32_t> prompt,
                                             const SamplingParams& params, std::vector<Boundary> boundaries) {
  if (session->engine_.get() != this) fail(ErrorKind::Input, "the session belongs to another engine");
  if (prompt.empty()) fail(ErrorKind::Input, "the prompt is empty: there is nothing to continue");
  check_ids(prompt);
  if (int64_t(prompt.size()) >= plan_.context)
    fail(ErrorKind::Input, "the prompt has ", prompt.size(), " tokens, but the context holds ", plan_.context,
         " and the answer needs room too: shorten it, or open the engine with a larger context (the model allows ",
         config_.max_position_embeddings, ")");
  return std::make_unique<Generation>(std::move(session), std::move(prompt), params, std::move(boundaries));
}

// Moves the session to the longest known prefix of the prompt. At least one token of it remains to be fed: its logits
// choose the first of the answer.
void Engine::resume(Session& session, std::span<const int32_t> prompt) {
  std::vector<int32_t>& tokens = session.tokens_;
  const int64_t known = std::ranges::mismatch(tokens, prompt).in1 - tokens.begin();
  const bool continues = session.valid_ && known == session.position() && known < int64_t(prompt.size());
  const int64_t stored = snapshots_->longest_prefix(prompt);
  if (continues && known >= stored) return;
  // Another conversation comes. If it is the same one, and only the answer is told anew, nobody will come back for it.
  if (session.valid_ && !tokens.empty() && known < session.turn_)
    snapshots_->take(session.state_, tokens, Keep::Parked);
  session.valid_ = false;
  const int64_t restored = snapshots_->restore(session.state_, tokens, prompt);
  if (restored == 0) return session.clear();
  tokens.assign(prompt.begin(), prompt.begin() + restored);
  session.valid_ = true;
}

void Engine::save_states(Session& session) {
  const ComputeLock lock(*this);
  if (session.valid_ && !session.tokens_.empty()) snapshots_->take(session.state_, session.tokens_, Keep::Parked);
  snapshots_->flush();
}

void Engine::forget() {
  const ComputeLock lock(*this);
  snapshots_->clear();
}

void Engine::check_ids(std::span<const int32_t> ids) const {
  for (const int32_t id : ids)
    if (id < 0 || id >= config_.vocab_size)
      fail(ErrorKind::Input, "token id ", id, " is outside the vocabulary of ", config_.vocab_size);
}

void Engine::feed(Session& session, std::span<const int32_t> ids, const ReadLogits& read, const ForwardHooks& hooks,
                  std::span<const StateCopy> copies) {
  recover_from_pressure();
  session.valid_ = false;
  ForwardHooks all = hooks;
  if (trace_)
    all.after_route = [&](int layer, const Routes& routes) {
      trace_->route(layer, routes);
      if (hooks.after_route) hooks.after_route(layer, routes);
    };
  model_->set_prefetch(prefetch_.on());
  try {
    model_->forward(session.state_, ids, all, copies);
    if (read)
      read(int(ids.size()) - 1, all);
    else
      model_->finish(all);
  } catch (...) {
    model_->abandon();  // before somebody clears or frees the state
    throw;
  }
  if (trace_) trace_->end_chunk(int(ids.size()));
  session.tokens_.insert(session.tokens_.end(), ids.begin(), ids.end());
  session.valid_ = true;
}

void Engine::forward(Session& session, std::span<const int32_t> ids, float* logits, Capture* capture,
                     const Interrupt& interrupt) {
  check_ids(ids);
  if (!session.valid_) fail(ErrorKind::Input, "the session was cut off half way: reset it first");
  if (session.position() + int64_t(ids.size()) > session.state_.context)
    fail(ErrorKind::Input, "the session holds ", session.position(), " tokens and ", ids.size(),
         " more do not fit into its context of ", session.state_.context);
  ForwardHooks hooks;
  hooks.before_layer = [&] { ask(interrupt); };
  int tokens = 0;
  std::vector<float> hidden;
  if (capture) {
    capture->layers.resize(config_.num_hidden_layers);
    capture->indices.resize(config_.num_hidden_layers);
    capture->weights.resize(config_.num_hidden_layers);
    hooks.after_layer = [&](int layer) {
      hidden.resize(size_t(tokens) * config_.hidden_size);
      backend_->hidden(hidden.data(), tokens);
      std::vector<float>& out = layer < 0 ? capture->embed : capture->layers[layer];
      out.insert(out.end(), hidden.begin(), hidden.end());
    };
    hooks.after_route = [&](int layer, const Routes& routes) {
      std::vector<int32_t>& indices = capture->indices[layer];
      std::vector<float>& weights = capture->weights[layer];
      indices.insert(indices.end(), routes.experts.begin(), routes.experts.end());
      weights.insert(weights.end(), routes.weights.begin(), routes.weights.end());
    };
  }
  const ComputeLock lock(*this);
  session.generation_++;
  for (size_t begin = 0; begin < ids.size(); begin += size_t(plan_.chunk)) {
    const auto chunk = ids.subspan(begin, std::min(ids.size() - begin, size_t(plan_.chunk)));
    tokens = int(chunk.size());
    float* out = logits + int64_t(begin) * config_.vocab_size;
    feed(
        session, chunk,
        [&](int last, const ForwardHooks& all) {
          for (int i = 0; i <= last; i += kLogitRows)
            model_->logits(i, std::min(kLogitRows, last + 1 - i), out + int64_t(i) * config_.vocab_size, all);
        },
        hooks);
  }
}

namespace {

template <class T>
std::vector<T> values(Buffer& buffer, size_t count) {
  std::vector<T> out(count);
  buffer.read(0, out.data(), count * sizeof(T));
  return out;
}

std::vector<float> kv_rows(const KvCache& cache, Buffer& rows, Buffer* scales, int64_t count, int64_t head_dim) {
  const size_t elements = size_t(count * head_dim);  // `count`: positions times heads
  switch (cache.type) {
    case KvType::F32:
      return values<float>(rows, elements);
    case KvType::F16: {
      const std::vector<uint16_t> halves = values<uint16_t>(rows, elements);
      std::vector<float> out(elements);
      std::ranges::transform(halves, out.begin(), f16_to_float);
      return out;
    }
    case KvType::Int8: {
      const std::vector<int8_t> codes = values<int8_t>(rows, elements);
      const std::vector<float> scale = values<float>(*scales, size_t(count));
      std::vector<float> out(elements);
      for (size_t i = 0; i < elements; i++) out[i] = float(codes[i]) * scale[i / size_t(head_dim)];
      return out;
    }
  }
  return {};
}

}  // namespace

std::vector<StateTensor> Engine::state(Session& session, int layer) {
  if (layer < 0 || layer >= config_.num_hidden_layers)
    fail(ErrorKind::Input, "layer ", layer, " does not exist: the model has ", config_.num_hidden_layers);
  const ComputeLock lock(*this);
  const ModelConfig& c = config_;
  if (c.linear_layers[layer]) {
    DeltaNetState& s = session.state_.delta_nets[layer];
    const size_t taps = size_t(c.linear_conv_kernel_dim - 1), channels = size_t(c.conv_dim());
    const size_t heads = size_t(c.linear_num_value_heads), dv = size_t(c.linear_value_head_dim);
    const size_t dk = size_t(c.linear_key_head_dim);
    return {{"conv", {taps, channels}, values<float>(*s.conv, taps * channels)},
            {"state", {heads, dv, dk}, values<float>(*s.state, heads * dv * dk)}};
  }
  KvCache& cache = session.state_.kv_caches[layer];
  const std::vector<size_t> shape = {size_t(session.position()), size_t(c.num_key_value_heads), size_t(c.head_dim)};
  const int64_t count = session.position() * c.num_key_value_heads;
  return {{"keys", shape, kv_rows(cache, *cache.keys, cache.key_scales.get(), count, c.head_dim)},
          {"values", shape, kv_rows(cache, *cache.values, cache.value_scales.get(), count, c.head_dim)}};
}

// Memory --------------------------------------------------------------------------------------------------------------

uint64_t Engine::least_pool() const {
  return std::min<uint64_t>(plan_.experts, uint64_t(config_.num_experts_per_tok)) * plan_.slot;
}

uint64_t Engine::pool_budget() const {
  const uint64_t fixed = plan_.process + plan_.overhead + plan_.resident + plan_.scratch + plan_.snapshots +
                         uint64_t(std::max(sessions_, 1)) * plan_.state;
  const uint64_t room = ceiling_ > fixed ? ceiling_ - fixed : 0;
  const uint64_t most = options_.pool_slots ? std::min(plan_.experts, options_.pool_slots) : plan_.experts;
  const uint64_t budget = plan_.slot ? std::min(most, room / plan_.slot) * plan_.slot : 0;
  const uint64_t least = least_pool();
  if (budget < least)
    fail(ErrorKind::Memory, "a ceiling of ", format_bytes(ceiling_), " with ", std::max(sessions_, 1),
         " session(s) is too small: the smallest that works is ", format_bytes(fixed + least));
  return pressure_limit_ ? std::min(budget, pressure_limit_) : budget;
}

void Engine::add_sessions(int delta) {
  const std::lock_guard lock(budget_);
  sessions_ += delta;
  try {
    store_->set_budget(pool_budget());
  } catch (...) {
    sessions_ -= delta;
    throw;
  }
}

void Engine::set_memory(uint64_t ceiling) {
  const std::lock_guard lock(budget_);
  const uint64_t ceiling_before = std::exchange(ceiling_, ceiling);
  const uint64_t limit_before = std::exchange(pressure_limit_, 0);
  try {
    store_->set_budget(pool_budget());
  } catch (...) {
    ceiling_ = ceiling_before;
    pressure_limit_ = limit_before;
    throw;
  }
}

uint64_t Engine::relieve_pressure() {
  const std::lock_guard lock(budget_);
  if (!plan_.slot) return 0;
  const uint64_t before = store_->resident_bytes();
  pressure_limit_ = std::max(std::min(store_->budget(), before) / 2 / plan_.slot * plan_.slot, least_pool());
  pressure_change_ = std::chrono::steady_clock::now();
  store_->set_budget(pool_budget());
  const uint64_t after = store_->resident_bytes();
  return before > after ? before - after : 0;
}

void Engine::recover_from_pressure() {
  const std::lock_guard lock(budget_);
  const auto now = std::chrono::steady_clock::now();
  if (!pressure_limit_ || now - pressure_change_ < std::chrono::seconds(kCalmSeconds)) return;
  pressure_change_ = now;
  const uint64_t grown = 2 * std::exchange(pressure_limit_, 0);
  const uint64_t full = pool_budget();
  if (grown < full) pressure_limit_ = grown;
  store_->set_budget(std::min(grown, full));
}

}  // namespace swiftlet
