// What decode, prefill and context have in common: a container, options of the engine, and a text to feed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arguments.h"
#include "container/qpack.h"
#include "engine/engine.h"
#include "measure.h"
#include "model_size.h"
#include "report.h"

namespace swiftlet::bench {

struct Workload {
  std::string path;  // of the container
  Qpack qpack;
  ModelConfig config;
  EngineOptions engine;  // threads and isa are resolved
  int repeat = 0;
  std::string json;           // file for the report, or empty
  std::vector<int32_t> text;  // see read_text
  std::string text_source;    // "tokens.json" or "random"
};

// Takes the arguments that these commands share, and the container; complains of what is left over, so a command asks
// for its own first. --cold is done here.
Workload parse_workload(Arguments& arguments);

// `count` tokens from `first` on. The text begins anew at its end; ErrorKind::Input if it is shorter than `count`.
std::vector<int32_t> tokens_of(const Workload& workload, int64_t first, int64_t count);

// The last part of a container's path.
std::string container_name(const std::string& path);

// The keys that each measurement of a command has.
Json common_keys(const std::string& command, const Workload& workload);

// How the ceiling compares with what the process took at most.
Json memory_keys(const MemoryPlan& plan, uint64_t resident_set);

// Streaming's part of a measurement of `tokens` tokens in `seconds`.
void add_streaming(Series& series, const ExpertStats& before, const ExpertStats& after, double seconds, int64_t tokens);

// Bytes a second that the disk gives to as many readers as the engine has, measured now for a moment.
double disk_bytes_per_second(const Workload& workload, const Engine& engine);

// Drops the container's files from the page cache, as far as the system can.
void drop_from_page_cache(const std::string& container);

KvType parse_kv(const std::string& name);  // "f16", "int8" or "f32"

// Feeds a prompt to the session, from its beginning, as a conversation would.
void prefill_prompt(Engine& engine, const std::shared_ptr<Session>& session, std::vector<int32_t> prompt);

}  // namespace swiftlet::bench
