#include "workload.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "backend/cpu/thread_pool.h"
#include "base/error.h"
#include "container/json.h"
#include "experts/io_bench.h"

namespace swiftlet::bench {
namespace {

constexpr int64_t kRandomTokens = 65536;
constexpr double kDiskSeconds = 0.3;

// The ids of a text whose routing has the skew and the locality of real text, where the container has one. Random
// tokens else: they make any pool look bad.
void read_text(Workload& workload) {
  const std::string file = workload.path + "/tokens.json";
  const int64_t vocabulary = workload.config.vocab_size;
  if (std::filesystem::exists(file)) {
    const JsonFile json =
        parse_json(swiftlet::read_text(file), file, "write it again with benchmarks/make_synthetic.py");
    for (const JsonRef& id : JsonRef(json).elements())
      workload.text.push_back(int32_t(id.as_uint(uint64_t(vocabulary - 1))));
    workload.text_source = "tokens.json";
  } else {
    std::mt19937 random(1);
    for (int64_t i = 0; i < kRandomTokens; ++i) workload.text.push_back(int32_t(random() % uint64_t(vocabulary)));
    workload.text_source = "random";
  }
}

}  // namespace

Workload parse_workload(Arguments& arguments) {
  Workload workload;
  EngineOptions& engine = workload.engine;
  workload.repeat = int(arguments.number("--repeat", 5, 1, 1000));
  workload.json = arguments.text("--json", "");
  engine.memory = arguments.bytes("--memory");
  engine.chunk = int(arguments.number("--chunk", 0, 1, 65536));
  engine.backend.name = "cpu";
  engine.backend.threads = int(arguments.number("--threads", available_cpus(), 1, 1024));
  engine.backend.isa = arguments.isa();
  const std::string io = arguments.choice("--io", {"auto", "direct", "buffered"});
  engine.io = io == "auto" ? IoMode::Auto : io == "direct" ? IoMode::Direct : IoMode::Buffered;
  engine.io_threads = int(arguments.number("--io-threads", 8, 1, 256));
  engine.pool_slots = uint64_t(arguments.number("--slots", 0, 1, 1 << 30));
  engine.state_memory = 0;  // a prompt that comes again must be computed again
  const bool cold = arguments.flag("--cold");
  workload.path = arguments.positional("container");
  arguments.done();

  workload.qpack = open_qpack(workload.path);
  workload.config =
      parse_config(workload.qpack.config_json, workload.qpack.generation_json, workload.path + "/config.json");
  read_text(workload);
  if (cold) drop_from_page_cache(workload.path);
  return workload;
}

std::vector<int32_t> tokens_of(const Workload& workload, int64_t first, int64_t count) {
  const auto size = int64_t(workload.text.size());
  if (count > size)
    fail(ErrorKind::Input, "the text of ", workload.path, " has ", size, " tokens, fewer than the ", count,
         " that are asked for: use a smaller --prompt, --decode or --repeat");
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(workload.text[size_t((first + i) % size)]);
  return tokens;
}

std::string container_name(const std::string& path) {
  return std::filesystem::path(path + "/").parent_path().filename().string();
}

Json common_keys(const std::string& command, const Workload& workload) {
  return {{"command", command},
          {"container", container_name(workload.path)},
          {"isa", workload.engine.backend.isa},
          {"threads", workload.engine.backend.threads},
          {"io_threads", workload.engine.io_threads},
          {"text", workload.text_source}};
}

Json memory_keys(const MemoryPlan& plan, uint64_t resident_set) {
  return {{"ceiling", plan.ceiling},
          {"resident_set", resident_set},
          {"under_the_ceiling", resident_set <= plan.ceiling},
          {"resident_weights", plan.resident},
          {"state", plan.state},
          {"scratch", plan.scratch},
          {"pool", plan.pool},
          {"slots", plan.slots},
          {"experts", plan.experts},
          {"context", plan.context},
          {"chunk", plan.chunk}};
}

void add_streaming(Series& series, const ExpertStats& before, const ExpertStats& after, double seconds,
                   int64_t tokens) {
  const double asked = double(after.hits + after.misses - before.hits - before.misses);
  const double wait = after.wait_seconds - before.wait_seconds, count = double(tokens);
  if (asked > 0) series.add("hit_rate", double(after.hits - before.hits) / asked);
  series.add("disk_bytes_per_token", double(after.bytes_read - before.bytes_read) / count);
  series.add("wait_ms_per_token", 1e3 * wait / count);
  series.add("compute_ms_per_token", 1e3 * (seconds - wait) / count);
  if (after.guesses > before.guesses) {
    series.add("guesses_per_token", double(after.guesses - before.guesses) / count);
    series.add("guess_hits_per_token", double(after.guess_hits - before.guess_hits) / count);
  }
}

double disk_bytes_per_second(const Workload& workload, const Engine& engine) {
  const IoMode mode = engine.experts().direct_io() ? IoMode::Direct : IoMode::Buffered;
  const IoBench reads = bench_io(workload.qpack, mode, workload.engine.io_threads, kDiskSeconds);
  return double(reads.bytes) / reads.seconds;
}

void drop_from_page_cache(const std::string& container) {
#ifdef POSIX_FADV_DONTNEED
  for (const auto& entry : std::filesystem::recursive_directory_iterator(container)) {
    if (!entry.is_regular_file()) continue;
    const int file = open(entry.path().c_str(), O_RDONLY);
    if (file < 0) continue;  // what cannot be read is not in the way
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    close(file);
  }
#else
  fail(ErrorKind::Input, "--cold: this system cannot drop ", container, " from its page cache");
#endif
}

KvType parse_kv(const std::string& name) {
  return name == "f32" ? KvType::F32 : name == "f16" ? KvType::F16 : KvType::Int8;
}

void prefill_prompt(Engine& engine, const std::shared_ptr<Session>& session, std::vector<int32_t> prompt) {
  session->reset();
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = 1;
  engine.generate(session, std::move(prompt), params)->next();
}

}  // namespace swiftlet::bench
