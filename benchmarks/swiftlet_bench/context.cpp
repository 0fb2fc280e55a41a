// Decode far into a context: at each position a few tokens, with keys and values of each type.
//
// The first tokens are prefilled. Keys and values of the positions after them are copies of theirs, for what attention
// costs depends on how many there are and not on what they say; so no hour is spent on a prefill of 32,768 tokens. That
// needs the model without an engine around it.
#include <algorithm>

#include "base/error.h"
#include "base/memory.h"
#include "commands.h"
#include "workload.h"

namespace swiftlet::bench {
namespace {

struct Parts {
  std::unique_ptr<Backend> backend;
  ModelWeights weights;
  std::unique_ptr<ExpertStore> store;
  std::unique_ptr<Model> model;
};

// What an engine would make of a plan.
Parts open_parts(const Workload& work, const MemoryPlan& plan) {
  Parts parts;
  parts.backend = make_backend(work.config, work.engine.backend);
  parts.weights = load_weights(work.qpack, work.config, *parts.backend);
  parts.backend->add_memory(parts.weights.arena.data(), parts.weights.arena.bytes());
  ExpertStoreOptions store;
  store.budget_bytes = plan.pool;
  store.io_threads = work.engine.io_threads;
  store.io = work.engine.io;
  store.user_orders = orders_experts(parts.weights);
  parts.store = std::make_unique<ExpertStore>(work.qpack, store, work.config.num_experts_per_tok);
  return parts;
}

// Fills the rows of keys and values from position `known` on with copies of those before it.
void repeat_rows(const ModelState& state, const StateShape& shape, int64_t known) {
  const std::vector<Buffer*> buffers = kv_buffers(state);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const uint64_t row = shape.kv_rows[i];
    std::vector<std::byte> rows(uint64_t(known) * row);
    buffers[i]->read(0, rows.data(), rows.size());
    for (int64_t position = known; position < state.context; position += known)
      buffers[i]->write(uint64_t(position) * row, rows.data(),
                        uint64_t(std::min(known, state.context - position)) * row);
  }
}

}  // namespace

void context(Arguments& arguments) {
  const int64_t prompt = arguments.number("--prompt", 512, 1, 1 << 20);
  const int64_t count = arguments.number("--decode", 8, 1, 1 << 20);
  const std::vector<int64_t> positions = arguments.numbers("--positions", {1024, 8192, 32768}, 1, 1 << 24);
  const std::vector<std::string> kvs = arguments.choices("--kv", {"f16", "int8"});
  Workload work = parse_workload(arguments);
  const std::vector<int32_t> text = tokens_of(work, 0, prompt + count);
  work.engine.context = std::ranges::max(positions) + count;
  if (std::ranges::min(positions) < prompt)
    fail(ErrorKind::Input, "--positions has ", std::ranges::min(positions), ", which lies within the --prompt of ",
         prompt, ": use a shorter prompt");
  Report report(work.json, common_keys("context", work));

  for (const std::string& kv : kvs) {
    work.engine.kv = parse_kv(kv);
    const MemoryPlan plan = plan_container(work.path, work.engine);
    Parts parts = open_parts(work, plan);
    Model model(work.config, parts.weights, *parts.backend, *parts.store, plan.chunk);
    ModelState state = make_state(work.config, *parts.backend, plan.context, work.engine.kv);
    for (int64_t begin = 0; begin < prompt; begin += plan.chunk) {
      const auto chunk = std::span(text).subspan(size_t(begin), size_t(std::min<int64_t>(plan.chunk, prompt - begin)));
      model.forward(state, chunk);
      model.finish();
    }
    repeat_rows(state, state_shape(work.config, work.engine.kv), prompt);
    const TokenBytes cost = token_bytes(work.qpack, work.config, work.engine.kv);
    std::vector<float> logits(size_t(work.config.vocab_size));
    const auto ids = std::span(text).subspan(size_t(prompt));

    for (const int64_t position : positions) {
      Series series;
      for (int i = 0; i < work.repeat; ++i) {
        state.position = position;
        const ExpertStats before = parts.store->stats();
        const OthersBusy others;
        const double start = now();
        for (const int32_t& id : ids) {
          model.forward(state, std::span(&id, 1));
          model.logits(0, 1, logits.data());  // throws if one is not finite
        }
        const double seconds = now() - start;
        const std::optional<double> busy = others.cores();
        series.add("tokens_per_second", double(count) / seconds);
        series.add("gb_per_second", double(cost.at(position)) * double(count) / seconds / 1e9);
        add_streaming(series, before, parts.store->stats(), seconds, count);
        series.add("others_busy_cores", busy);
      }
      Json result = {{"position", position},
                     {"decode", count},
                     {"repeat", work.repeat},
                     {"kv", kv},
                     {"kv_bytes_per_token", uint64_t(position) * cost.kv_row},
                     {"memory", memory_keys(plan, resident_set_bytes())}};
      result.update(series.json());
      report.add(result);
      series.print("decode at position " + std::to_string(position) + ", " + kv);
    }
  }
}

}  // namespace swiftlet::bench
