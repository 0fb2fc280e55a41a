// A loaded model, the sessions it talks in and the generations that run in them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backend/backends.h"
#include "engine/plan.h"
#include "engine/prefetch_meter.h"
#include "engine/pressure.h"
#include "engine/sampler.h"
#include "engine/snapshot_store.h"
#include "engine/trace.h"
#include "model/model.h"

namespace swiftlet {

struct EngineOptions {
  uint64_t memory = 0;  // ceiling of the process in bytes; 0: what the machine can spare
  int64_t context = 0;  // positions a session can hold; 0: a default
  KvType kv = KvType::F16;
  int chunk = 0;  // tokens of a prefill chunk; 0: as many as memory permits
  BackendOptions backend;
  IoMode io = IoMode::Auto;
  int io_threads = 8;
  uint64_t host_memory = 0;  // bytes of experts in host memory, for a device with memory of its own; 0: none
  uint64_t pool_slots = 0;   // the most experts in memory; 0: as many as the ceiling allows
  Prefetch prefetch = Prefetch::Auto;
  bool watch_pressure = false;  // shrink the pool when the system runs short of memory, grow it back later
  std::string trace;            // a file that records the routing; empty: none
  // Snapshots of conversations: bytes in memory (none: a small part of the ceiling), the folder that keeps them (empty:
  // none), and the bytes that they may take there.
  std::optional<uint64_t> state_memory;
  std::string state_dir;
  uint64_t state_disk = uint64_t(8) << 30;
};

// The plan for a container, without loading it.
MemoryPlan plan_container(const std::string& path, const EngineOptions& options);

class Engine;

// One conversation. Its memory is counted in the engine's plan: every session beyond the first takes its state's bytes
// from the pool. Keeps its engine alive.
class Session {
 public:
  explicit Session(std::shared_ptr<Engine> engine);
  ~Session();
  Session(const Session&) = delete;

  int64_t position() const { return state_.position; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  bool valid() const { return valid_; }
  void reset();

 private:
  friend class Engine;
  friend class Generation;
  void clear();  // with the engine's compute lock held
  std::shared_ptr<Engine> engine_;
  ModelState state_;
  std::vector<int32_t> tokens_;  // those that were fed
  bool valid_ = true;            // false: a chunk was cut off half way, the state means nothing
  int64_t turn_ = 0;             // where the last message of the last prompt ended
  uint64_t generation_ = 0;      // counts the generations that have begun: only the latest may go on
};

struct PhaseStats {
  int64_t tokens = 0;
  double seconds = 0;
  ExpertStats experts;
};

struct GenerationStats {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt: already in the session or in a snapshot
  PhaseStats prefill, decode;
};

enum class FinishReason { None, Stop, Length };

struct GeneratedToken {
  SampledToken token;
  FinishReason finish = FinishReason::None;
};

// A place in a prompt that later prompts are likely to have in common with it: the end of a message.
struct Boundary {
  int64_t position = 0;  // tokens before it
  bool passing = false;  // soon to be replaced by a later one: see Keep::Passing
};

// Asked several times a second during a prefill; true, or an exception, stops there.
using Interrupt = std::function<bool()>;

// Takes what is wanted of the logits of a chunk, of which `last` is the last token, from the model; empty: nothing is.
using ReadLogits = std::function<void(int last, const ForwardHooks& hooks)>;

class Generation {
 public:
  // See Engine::generate.
  Generation(std::shared_ptr<Session> session, std::vector<int32_t> prompt, const SamplingParams& params,
             std::vector<Boundary> boundaries);

  // The next token; the first call prefills. `mask`: the tokens that may be chosen, as for Sampler::sample. Throws
  // ErrorKind::Input after the last token, ErrorKind::Cancelled when interrupted (the session is then invalid; the
  // next generation starts from a snapshot or anew).
  GeneratedToken next(const Interrupt& interrupt = {}, std::span<const uint32_t> mask = {});

  const GenerationStats& stats() const { return stats_; }
  double prefill_progress() const { return progress_; }  // 0 to 1

 private:
  void prefill(const Interrupt& interrupt, const ReadLogits& read);
  bool is_end(int32_t id) const;

  uint64_t number_ = 0;  // of this generation in its session, once it has begun
  std::shared_ptr<Session> session_;
  std::vector<int32_t> prompt_;
  std::vector<Boundary> boundaries_;  // inside the prompt, ascending
  SamplingParams params_;
  Sampler sampler_;
  GenerationStats stats_;
  std::optional<int32_t> last_;  // sampled, not fed yet
  int64_t generated_ = 0;
  bool finished_ = false;
  double progress_ = 0;
};

// What Engine::forward records on the way, if asked. Layer i of L, T tokens.
struct Capture {
  std::vector<float> embed;                   // [T, hidden]
  std::vector<std::vector<float>> layers;     // [L][T, hidden]
  std::vector<std::vector<int32_t>> indices;  // [L][T, k], empty for dense layers
  std::vector<std::vector<float>> weights;
};

// One tensor of a layer's state, converted to f32.
struct StateTensor {
  std::string name;
  std::vector<size_t> shape;
  std::vector<float> values;
};

// Held while something is computed. Throws ErrorKind::Input if this thread holds it already: an engine cannot be used
// from inside its own callbacks.
class ComputeLock {
 public:
  explicit ComputeLock(Engine& engine);
  ~ComputeLock();
  ComputeLock(const ComputeLock&) = delete;

 private:
  Engine& engine_;
};

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Opens the container, plans the memory, loads the resident weights. Throws Error.
  static std::shared_ptr<Engine> open(const std::string& path, const EngineOptions& options);

  const ModelConfig& config() const { return config_; }
  const MemoryPlan& plan() const { return plan_; }
  const ExpertStore& experts() const { return *store_; }
  std::string backend_description() const { return backend_->description(); }
  BackendCounters backend_counters() const { return backend_->counters(); }

  std::shared_ptr<Session> session();

  // Tokens that follow `prompt`. Of it only what follows the longest known prefix is prefilled: the session's tokens or
  // a snapshot's. Snapshots are taken at the boundaries, and now and then in a long prefill. Generations in different
  // sessions may take turns. Throws ErrorKind::Input for an empty prompt, an id outside the vocabulary or a prompt that
  // fills the context.
  std::unique_ptr<Generation> generate(std::shared_ptr<Session> session, std::vector<int32_t> prompt,
                                       const SamplingParams& params, std::vector<Boundary> boundaries = {});

  // Feeds ids to the session; logits of all of them, [T, vocab].
  void forward(Session& session, std::span<const int32_t> ids, float* logits, Capture* capture,
               const Interrupt& interrupt);

  // conv [kernel - 1, conv_dim] and state [value heads, value_head_dim, key_head_dim] of a DeltaNet layer, or keys and
  // values [position, kv heads, head_dim] of an attention layer.
  std::vector<StateTensor> state(Session& session, int layer);

  // Keeps the session's state as a snapshot, and all snapshots in the folder, if there is one.
  void save_states(Session& session);
  // Drops all snapshots, also those in the folder.
  void forget();
  SnapshotStats snapshot_stats() const { return snapshots_->stats(); }
  // What went wrong with snapshots since the last call: sentences for people.
  std::vector<std::string> take_warnings() { return snapshots_->take_warnings(); }

  // A new ceiling, from any thread; the pool shrinks or may grow between tokens.
  void set_memory(uint64_t ceiling);
  // Halves the pool, down to the experts of one token; returns the bytes given back. While tokens are computed it
  // doubles again every kCalmSeconds without a further call, up to what the ceiling allows.
  static constexpr int kCalmSeconds = 10;
  uint64_t relieve_pressure();

 private:
  friend class Session;
  friend class Generation;
  friend class ComputeLock;

  Engine(const std::string& path, const EngineOptions& options);

  // Feeds up to a chunk of ids.
  void feed(Session& session, std::span<const int32_t> ids, const ReadLogits& read, const ForwardHooks& hooks,
            std::span<const StateCopy> copies = {});
  void resume(Session& session, std::span<const int32_t> prompt);
  void check_ids(std::span<const int32_t> ids) const;
  void add_sessions(int delta);
  uint64_t least_pool() const;
  uint64_t pool_budget() const;
  void recover_from_pressure();

  Qpack qpack_;
  ModelConfig config_;
  EngineOptions options_;
  MemoryPlan plan_;
  std::unique_ptr<Backend> backend_;
  ModelWeights weights_;
  std::unique_ptr<ExpertStore> store_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<SnapshotStore> snapshots_;  // used with the compute lock held
  std::vector<float> logits_;                 // [vocab]
  std::mutex compute_;                        // one forward pass at a time
  std::atomic<std::thread::id> computing_;    // who holds it
  PrefetchMeter prefetch_;
  std::unique_ptr<RoutingTrace> trace_;
  std::mutex budget_;  // guards the four below
  int sessions_ = 0;
  uint64_t ceiling_ = 0;
  uint64_t pressure_limit_ = 0;                              // of the pool, after relieve_pressure(); 0: none
  std::chrono::steady_clock::time_point pressure_change_{};  // when that limit was last moved
  std::unique_ptr<PressureWatch> pressure_watch_;            // last: its thread uses the rest
};

}  // namespace swiftlet
