// Prefill of prompts of several lengths: where experts are read from disk, of another piece of the text each time.
#include <algorithm>

#include "base/memory.h"
#include "commands.h"
#include "workload.h"

namespace swiftlet::bench {

void prefill(Arguments& arguments) {
  const std::vector<int64_t> lengths = arguments.numbers("--prompt", {512, 2048}, 1, 1 << 20);
  const std::string warm = arguments.choice("--warm", {"auto", "on", "off"});
  const std::string kv = arguments.choice("--kv", {"f16", "int8", "f32"});
  Workload work = parse_workload(arguments);
  const int64_t longest = std::ranges::max(lengths);
  work.engine.context = longest + 1;
  work.engine.kv = parse_kv(kv);
  Report report(work.json, common_keys("prefill", work));

  const std::shared_ptr<Engine> engine = Engine::open(work.path, work.engine);
  const std::shared_ptr<Session> session = engine->session();
  const bool warmed = warm == "on" || (warm == "auto" && engine->plan().slots == engine->plan().experts);
  if (warmed) prefill_prompt(*engine, session, tokens_of(work, 0, longest));

  for (const int64_t length : lengths) {
    Series series;
    for (int i = 0; i < work.repeat; ++i) {
      const std::vector<int32_t> prompt = tokens_of(work, warmed ? 0 : i * longest, length);
      const ExpertStats before = engine->experts().stats();
      const OthersBusy others;
      const double start = now(), start_cpu = cpu_seconds();
      prefill_prompt(*engine, session, prompt);
      const double seconds = now() - start, cpu = cpu_seconds() - start_cpu;
      const std::optional<double> busy = others.cores();
      series.add("tokens_per_second", double(length) / seconds);
      series.add("gflop_per_second", 2e-9 * prefill_weights(work.config) * double(length) / seconds);
      add_streaming(series, before, engine->experts().stats(), seconds, length);
      series.add("cpu_ms_per_token", 1e3 * cpu / double(length));
      series.add("others_busy_cores", busy);
    }
    const uint64_t peak = peak_resident_set_bytes();
    Json result = {{"prompt", length},
                   {"repeat", work.repeat},
                   {"kv", kv},
                   {"direct_io", engine->experts().direct_io()},
                   {"memory", memory_keys(engine->plan(), peak)}};
    result.update(series.json());
    report.add(result);
    series.print("prefill of " + std::to_string(length) + " tokens");
  }
}

}  // namespace swiftlet::bench
