// Decode: what the container's text says next is fed token by token, as it stands there: what a synthetic model would
// say itself loops.
//
// Every few tokens all threads read as many bytes plainly as those tokens had to read, so that both see the same
// machine. Of a token's time, `wait` is what the computing thread had nothing to do in but wait for a read, `compute`
// is the rest, and `disk` is what the bytes read take at the rate that raw reads reach right afterwards.
#include <algorithm>

#include "allocations.h"
#include "base/memory.h"
#include "commands.h"
#include "plain_read.h"
#include "workload.h"

namespace swiftlet::bench {
namespace {

constexpr int64_t kBlock = 8;  // tokens between two plain reads

struct Sample {
  double seconds = 0, read_seconds = 0;
  double cpu_seconds = 0, read_cpu_seconds = 0;
  uint64_t bytes = 0, read_bytes = 0;
  uint64_t allocations = 0;
};

// Feeds `ids` to the session in blocks, a plain read after each.
Sample feed(Engine& engine, Session& session, std::span<const int32_t> ids, const TokenBytes& cost, PlainRead& plain) {
  Sample sample;
  std::vector<float> logits(size_t(engine.config().vocab_size));
  for (size_t begin = 0; begin < ids.size(); begin += kBlock) {
    uint64_t bytes = 0;
    const uint64_t allocated = allocations();
    const double start = now(), start_cpu = cpu_seconds();
    for (const int32_t& id : ids.subspan(begin, std::min<size_t>(kBlock, ids.size() - begin))) {
      engine.forward(session, std::span(&id, 1), logits.data(), nullptr, {});
      bytes += cost.at(session.position());
    }
    const double middle = now(), middle_cpu = cpu_seconds();
    sample.allocations += allocations() - allocated;
    sample.read_bytes += plain.read(bytes);
    sample.seconds += middle - start;
    sample.cpu_seconds += middle_cpu - start_cpu;
    sample.read_seconds += now() - middle;
    sample.read_cpu_seconds += cpu_seconds() - middle_cpu;
    sample.bytes += bytes;
  }
  return sample;
}

}  // namespace

void decode(Arguments& arguments) {
  const int64_t prompt = arguments.number("--prompt", 128, 1, 1 << 20);
  const int64_t count = arguments.number("--decode", 64, 1, 1 << 20);
  const std::string prefetch = arguments.choice("--prefetch", {"off", "on"});
  const std::string warm = arguments.choice("--warm", {"auto", "on", "off"});
  const std::string kv = arguments.choice("--kv", {"f16", "int8", "f32"});
  const std::string trace = arguments.text("--trace", "");
  Workload work = parse_workload(arguments);
  const std::vector<int32_t> text = tokens_of(work, 0, prompt + count * work.repeat);
  work.engine.context = int64_t(text.size()) + 1;
  work.engine.kv = parse_kv(kv);
  work.engine.prefetch = prefetch == "on" ? Prefetch::On : Prefetch::Off;
  work.engine.trace = trace;
  Report report(work.json, common_keys("decode", work));

  ThreadPool pool(work.engine.backend.threads);
  PlainRead plain(pool);  // before the engine, whose plan then knows of its memory
  const std::shared_ptr<Engine> engine = Engine::open(work.path, work.engine);
  const std::shared_ptr<Session> session = engine->session();
  const TokenBytes cost = token_bytes(work.qpack, work.config, work.engine.kv);
  if (warm == "on" || (warm == "auto" && engine->plan().slots == engine->plan().experts))
    prefill_prompt(*engine, session, text);
  prefill_prompt(*engine, session, std::vector(text.begin(), text.begin() + prompt));

  Series series;
  for (int i = 0; i < work.repeat; ++i) {
    const ExpertStats before = engine->experts().stats();
    const OthersBusy others;
    const Sample sample =
        feed(*engine, *session, std::span(text).subspan(size_t(prompt + i * count), size_t(count)), cost, plain);
    const std::optional<double> busy = others.cores();
    const ExpertStats after = engine->experts().stats();
    const double rate = double(sample.bytes) / sample.seconds;
    const double read_rate = double(sample.read_bytes) / sample.read_seconds;
    series.add("tokens_per_second", double(count) / sample.seconds);
    series.add("gb_per_second", rate / 1e9);
    series.add("plain_read_gb_per_second", read_rate / 1e9);
    series.add("of_plain_read", rate / read_rate);
    add_streaming(series, before, after, sample.seconds, count);
    if (after.bytes_read > before.bytes_read) {
      const double disk = disk_bytes_per_second(work, *engine);
      series.add("disk_gb_per_second", disk / 1e9);
      series.add("disk_ms_per_token", 1e3 * double(after.bytes_read - before.bytes_read) / disk / double(count));
    }
    series.add("cpu_ms_per_token", 1e3 * sample.cpu_seconds / double(count));
    series.add("plain_read_cpu_ms_per_token", 1e3 * sample.read_cpu_seconds / double(count));
    series.add("allocations_per_token", double(sample.allocations) / double(count));
    series.add("others_busy_cores", busy);
  }

  const uint64_t peak = peak_resident_set_bytes();
  Json result = {{"prompt", prompt},
                 {"decode", count},
                 {"repeat", work.repeat},
                 {"kv", kv},
                 {"prefetch", prefetch},
                 {"direct_io", engine->experts().direct_io()},
                 {"plain_read_streams", plain.streams()},
                 {"token_bytes",
                  {{"resident_weights", cost.resident},
                   {"experts", cost.experts},
                   {"state", cost.state},
                   {"kv_row", cost.kv_row},
                   {"at_the_middle", cost.at(prompt + count * work.repeat / 2)}}},
                 {"memory", memory_keys(engine->plan(), peak)}};
  result.update(series.json());
  report.add(result);
  std::printf("%s: %lld tokens after %lld, %s keys and values, %d threads, %s\n", work.path.c_str(),
              static_cast<long long>(count), static_cast<long long>(prompt), kv.c_str(), work.engine.backend.threads,
              work.engine.backend.isa.c_str());
  std::printf("a token reads %s; peak of the process %s, ceiling %s, %llu of %llu experts fit\n",
              format_bytes(cost.at(prompt + count * work.repeat / 2)).c_str(), format_bytes(peak).c_str(),
              format_bytes(engine->plan().ceiling).c_str(), static_cast<unsigned long long>(engine->plan().slots),
              static_cast<unsigned long long>(engine->plan().experts));
  series.print("");
}

}  // namespace swiftlet::bench
