#include "capi/swiftlet.h"

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "engine/engine.h"

using swiftlet::ErrorKind;
using swiftlet::fail;

struct swiftlet_engine {
  std::shared_ptr<swiftlet::Engine> engine;
};

struct swiftlet_session {
  std::shared_ptr<swiftlet::Session> session;
  std::shared_ptr<swiftlet::Engine> engine;
  swiftlet::GenerationStats stats;
  std::atomic<bool> generating = false;
  std::atomic<bool> cancelled = false;
};

namespace {

thread_local std::string t_error;

swiftlet_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Input:
      return SWIFTLET_ERROR_INPUT;
    case ErrorKind::Container:
      return SWIFTLET_ERROR_CONTAINER;
    case ErrorKind::Memory:
      return SWIFTLET_ERROR_MEMORY;
    case ErrorKind::Io:
      return SWIFTLET_ERROR_IO;
    case ErrorKind::Numeric:
      return SWIFTLET_ERROR_NUMERIC;
    case ErrorKind::Cancelled:
      return SWIFTLET_CANCELLED;
  }
  return SWIFTLET_ERROR_INTERNAL;
}

// Runs `body`; an exception becomes a status and a message.
template <class Body>
swiftlet_status guarded(const Body& body) noexcept {
  try {
    t_error.clear();
    body();
    return SWIFTLET_OK;
  } catch (const swiftlet::Error& error) {
    t_error = error.what();
    return status_of(error.kind());
  } catch (const std::bad_alloc&) {
    t_error = "out of memory";
    return SWIFTLET_ERROR_MEMORY;
  } catch (const std::exception& error) {
    t_error = error.what();
    return SWIFTLET_ERROR_INTERNAL;
  } catch (...) {
    return SWIFTLET_ERROR_INTERNAL;
  }
}

void check_given(const void* pointer, const char* name) {
  if (!pointer) fail(ErrorKind::Input, name, " is null");
}

swiftlet::SamplingParams params_of(const swiftlet_sampling& given) {
  swiftlet::SamplingParams params;
  params.max_tokens = given.max_tokens;
  params.temperature = given.temperature;
  params.top_p = given.top_p;
  params.top_k = given.top_k;
  params.min_p = given.min_p;
  params.repetition_penalty = given.repetition_penalty;
  params.seed = given.seed;
  return params;
}

// Marks a session as generating; a second generation in it is an error.
class Running {
 public:
  explicit Running(swiftlet_session& session) : session_(session) {
    if (session.generating.exchange(true)) fail(ErrorKind::Input, "the session is generating already");
    session.cancelled = false;
  }
  ~Running() { session_.generating = false; }
  Running(const Running&) = delete;

 private:
  swiftlet_session& session_;
};

}  // namespace

const char* swiftlet_error(void) { return t_error.c_str(); }

swiftlet_status swiftlet_engine_open(const char* path, const swiftlet_options* options, swiftlet_engine** engine) {
  return guarded([&] {
    check_given(path, "path");
    check_given(engine, "engine");
    *engine = nullptr;
    swiftlet::EngineOptions wanted;
    wanted.watch_pressure = true;
    if (options) {
      wanted.memory = options->memory;
      wanted.context = options->context;
      if (options->backend) wanted.backend.name = options->backend;
      wanted.backend.threads = options->threads;
      wanted.watch_pressure = options->watch_pressure;
    }
    *engine = new swiftlet_engine{swiftlet::Engine::open(path, wanted)};
  });
}

void swiftlet_engine_close(swiftlet_engine* engine) { delete engine; }

swiftlet_status swiftlet_engine_set_memory(swiftlet_engine* engine, uint64_t memory) {
  return guarded([&] {
    check_given(engine, "engine");
    engine->engine->set_memory(memory);
  });
}

swiftlet_status swiftlet_engine_relieve_pressure(swiftlet_engine* engine, uint64_t* freed) {
  return guarded([&] {
    check_given(engine, "engine");
    const uint64_t bytes = engine->engine->relieve_pressure();
    if (freed) *freed = bytes;
  });
}

swiftlet_status swiftlet_session_open(swiftlet_engine* engine, swiftlet_session** session) {
  return guarded([&] {
    check_given(engine, "engine");
    check_given(session, "session");
    *session = nullptr;
    auto made = std::make_unique<swiftlet_session>();
    made->engine = engine->engine;
    made->session = engine->engine->session();
    *session = made.release();
  });
}

void swiftlet_session_close(swiftlet_session* session) { delete session; }

swiftlet_status swiftlet_session_reset(swiftlet_session* session) {
  return guarded([&] {
    check_given(session, "session");
    session->session->reset();
  });
}

swiftlet_sampling swiftlet_default_sampling(void) {
  const swiftlet::SamplingParams defaults;
  return {defaults.max_tokens, defaults.temperature,        defaults.top_p, defaults.top_k,
          defaults.min_p,      defaults.repetition_penalty, defaults.seed};
}

swiftlet_status swiftlet_generate(swiftlet_session* session, const int32_t* prompt, size_t prompt_tokens,
                                  const swiftlet_sampling* sampling, swiftlet_on_token on_token, void* context) {
  return guarded([&] {
    check_given(session, "session");
    check_given(prompt, "prompt");
    check_given(reinterpret_cast<const void*>(on_token), "on_token");
    const Running running(*session);
    const auto params = params_of(sampling ? *sampling : swiftlet_default_sampling());
    const auto generation =
        session->engine->generate(session->session, std::vector<int32_t>(prompt, prompt + prompt_tokens), params);
    session->stats = generation->stats();
    const auto cancelled = [session] { return session->cancelled.load(); };
    for (bool more = true; more;) {
      if (cancelled()) fail(ErrorKind::Cancelled, "the generation was cancelled");
      const swiftlet::GeneratedToken token = generation->next(cancelled);
      session->stats = generation->stats();
      more = on_token(context, token.token.id) && token.finish == swiftlet::FinishReason::None;
    }
  });
}

void swiftlet_session_cancel(swiftlet_session* session) {
  if (session) session->cancelled = true;
}

swiftlet_statistics swiftlet_session_statistics(const swiftlet_session* session) {
  swiftlet_statistics out{};
  out.resident_bytes = swiftlet::resident_set_bytes();
  if (!session) return out;
  const swiftlet::GenerationStats& stats = session->stats;
  out.prompt_tokens = stats.prompt_tokens;
  out.cached_tokens = stats.cached_tokens;
  out.generated_tokens = stats.decode.tokens;
  out.prefill_seconds = stats.prefill.seconds;
  out.decode_seconds = stats.decode.seconds;
  out.expert_hits = stats.decode.experts.hits;
  out.expert_misses = stats.decode.experts.misses;
  out.bytes_read = stats.decode.experts.bytes_read;
  return out;
}
