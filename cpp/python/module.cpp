// The Python face of the engine: declarations only; python/swiftlet/_core.pyi documents them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/memory.h"
#include "engine/engine.h"
#include "experts/io_bench.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace swiftlet;

namespace {

// Exceptions ----------------------------------------------------------------------------------------------------------

struct Exceptions {
  nb::object base, input, container, memory, io, numeric, cancelled;

  PyObject* of(ErrorKind kind) const {
    switch (kind) {
      case ErrorKind::Input:
        return input.ptr();
      case ErrorKind::Container:
        return container.ptr();
      case ErrorKind::Memory:
        return memory.ptr();
      case ErrorKind::Io:
        return io.ptr();
      case ErrorKind::Numeric:
        return numeric.ptr();
      case ErrorKind::Cancelled:
        return cancelled.ptr();
    }
    return base.ptr();
  }
};

nb::object make_exception(nb::module_& m, const char* name, const nb::object& bases, const char* doc) {
  nb::object type =
      nb::steal(PyErr_NewExceptionWithDoc(("swiftlet." + std::string(name)).c_str(), doc, bases.ptr(), nullptr));
  if (!type.is_valid()) throw nb::python_error();
  m.attr(name) = type;
  return type;
}

void bind_exceptions(nb::module_& m) {
  static Exceptions* types = new Exceptions;  // lives as long as the interpreter
  types->base = make_exception(m, "SwiftletError", nb::borrow(PyExc_Exception), "Any error of this package.");
  types->input = make_exception(m, "InputError", nb::make_tuple(types->base, nb::handle(PyExc_ValueError)),
                                "An argument or a prompt that cannot be used.");
  types->container =
      make_exception(m, "ContainerError", types->base, "A file that is missing, damaged or contradictory.");
  types->memory = make_exception(m, "MemoryLimitError", types->base, "The memory ceiling cannot hold what was asked.");
  types->io = make_exception(m, "IoError", types->base, "A read that failed while the model ran.");
  types->numeric = make_exception(m, "NumericError", types->base, "NaN or infinity where a number should be.");
  types->cancelled = make_exception(m, "CancelledError", types->base, "Stopped by the caller.");
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& e) {
      PyErr_SetString(types->of(e.kind()), e.what());
    }
  });
}

// Conversions ---------------------------------------------------------------------------------------------------------

// A numpy array that owns `values`.
template <class T>
nb::object to_numpy(std::vector<T>&& values, std::vector<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner));
}

KvType parse_kv(const std::string& name) {
  if (name == "f32") return KvType::F32;
  if (name == "f16") return KvType::F16;
  if (name == "int8") return KvType::Int8;
  fail(ErrorKind::Input, "kv is \"", name, "\", but must be f32, f16 or int8");
}

IoMode parse_io(const std::string& name) {
  if (name == "auto") return IoMode::Auto;
  if (name == "direct") return IoMode::Direct;
  if (name == "buffered") return IoMode::Buffered;
  fail(ErrorKind::Input, "io is \"", name, "\", but must be auto, direct or buffered");
}

Prefetch parse_prefetch(const std::string& name) {
  if (name == "off") return Prefetch::Off;
  if (name == "auto") return Prefetch::Auto;
  if (name == "on") return Prefetch::On;
  fail(ErrorKind::Input, "prefetch is \"", name, "\", but must be off, auto or on");
}

nb::dict to_dict(const MemoryPlan& p) {
  nb::dict d;
  d["ceiling"] = p.ceiling;
  d["process"] = p.process;
  d["overhead"] = p.overhead;
  d["resident"] = p.resident;
  d["state"] = p.state;
  d["snapshots"] = p.snapshots;
  d["scratch"] = p.scratch;
  d["pool"] = p.pool;
  d["slots"] = p.slots;
  d["host"] = p.host;
  d["host_slots"] = p.host_slots;
  d["slot_bytes"] = p.slot;
  d["experts_total"] = p.experts;
  d["smallest"] = p.smallest;
  d["context"] = p.context;
  d["chunk"] = p.chunk;
  d["text"] = describe(p);
  return d;
}

nb::dict to_dict(const ExpertStats& s) {
  nb::dict d;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["bytes_read"] = s.bytes_read;
  d["reads"] = s.reads;
  d["host_hits"] = s.host_hits;
  d["host_bytes"] = s.host_bytes;
  d["evictions"] = s.evictions;
  d["guesses"] = s.guesses;
  d["guess_hits"] = s.guess_hits;
  d["wait_seconds"] = s.wait_seconds;
  return d;
}

nb::dict to_dict(const GenerationStats& s, int64_t completion_tokens) {
  nb::dict d;
  d["prompt_tokens"] = s.prompt_tokens;
  d["cached_tokens"] = s.cached_tokens;
  d["completion_tokens"] = completion_tokens;
  d["prefill_tokens"] = s.prefill.tokens;
  d["prefill_seconds"] = s.prefill.seconds;
  d["decode_seconds"] = s.decode.seconds;
  const nb::dict prefill = to_dict(s.prefill.experts), decode = to_dict(s.decode.experts);
  for (const auto& [key, value] : prefill) {
    nb::dict both;
    both["prefill"] = value;
    both["decode"] = decode[key];
    d[key] = both;
  }
  return d;
}

// Handles pending signals and asks the caller's function. Called without the GIL.
Interrupt make_interrupt(const nb::object& function) {
  return [&function] {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    return !function.is_none() && nb::cast<bool>(function());
  };
}

// Methods that need more than a forwarded call ------------------------------------------------------------------------

EngineOptions make_options(uint64_t memory, int64_t context, const std::string& kv, int chunk,
                           const std::string& backend, int threads, const std::string& isa, const std::string& io,
                           int io_threads, uint64_t host_memory, uint64_t pool_slots, const std::string& prefetch,
                           bool watch_pressure, const std::string& trace, std::optional<uint64_t> state_memory,
                           const std::string& state_dir, uint64_t state_disk) {
  EngineOptions options;
  options.memory = memory;
  options.context = context;
  options.kv = parse_kv(kv);
  options.chunk = chunk;
  options.backend = {backend, threads, isa};
  options.io = parse_io(io);
  options.io_threads = io_threads;
  options.host_memory = host_memory;
  options.pool_slots = pool_slots;
  options.prefetch = parse_prefetch(prefetch);
  options.watch_pressure = watch_pressure;
  options.trace = trace;
  options.state_memory = state_memory;
  options.state_dir = state_dir;
  options.state_disk = state_disk;
  return options;
}

nb::dict engine_config(const Engine& engine) {
  const ModelConfig& c = engine.config();
  nb::dict d;
  d["model_type"] = c.model_type;
  d["vocab_size"] = c.vocab_size;
  d["hidden_size"] = c.hidden_size;
  d["num_hidden_layers"] = c.num_hidden_layers;
  d["num_experts"] = c.num_experts;
  d["num_experts_per_tok"] = c.num_experts_per_tok;
  d["max_position_embeddings"] = c.max_position_embeddings;
  d["eos_token_ids"] = c.eos_token_ids;
  d["context"] = engine.plan().context;
  d["backend"] = engine.backend_description();
  d["io"] = engine.experts().direct_io() ? "direct" : "buffered";
  return d;
}

nb::dict engine_stats(const Engine& engine) {
  nb::dict d = to_dict(engine.experts().stats());
  d["pool_bytes"] = engine.experts().resident_bytes();
  d["host_memory"] = engine.plan().host;
  d["pool_budget"] = engine.experts().budget();
  d["slot_bytes"] = engine.experts().slot_bytes();
  const SnapshotStats snapshots = engine.snapshot_stats();
  d["snapshots"] = snapshots.in_memory;
  d["snapshot_bytes"] = snapshots.memory_bytes;
  d["snapshots_on_disk"] = snapshots.on_disk;
  d["snapshot_disk_bytes"] = snapshots.disk_bytes;
  const BackendCounters counters = engine.backend_counters();
  d["dispatches"] = counters.dispatches;
  d["commits"] = counters.commits;
  d["waits"] = counters.waits;
  d["resident_set_bytes"] = resident_set_bytes();
  d["peak_resident_set_bytes"] = peak_resident_set_bytes();
  return d;
}

nb::dict engine_forward(Engine& engine, Session& session, const std::vector<int32_t>& ids, bool capture,
                        const nb::object& interrupt) {
  const size_t tokens = ids.size(), vocab = size_t(engine.config().vocab_size);
  const size_t hidden = size_t(engine.config().hidden_size), k = size_t(engine.config().num_experts_per_tok);
  std::vector<float> logits(tokens * vocab);
  Capture captured;
  {
    const nb::gil_scoped_release release;
    engine.forward(session, ids, logits.data(), capture ? &captured : nullptr, make_interrupt(interrupt));
  }
  nb::dict out;
  out["logits"] = to_numpy(std::move(logits), {tokens, vocab});
  if (!capture) return out;
  nb::list layers, indices, weights;
  for (size_t i = 0; i < captured.layers.size(); i++) {
    layers.append(to_numpy(std::move(captured.layers[i]), {tokens, hidden}));
    const bool routed = !captured.indices[i].empty();
    indices.append(routed ? to_numpy(std::move(captured.indices[i]), {tokens, k}) : nb::none());
    weights.append(routed ? to_numpy(std::move(captured.weights[i]), {tokens, k}) : nb::none());
  }
  out["embed"] = to_numpy(std::move(captured.embed), {tokens, hidden});
  out["layers"] = layers;
  out["router_indices"] = indices;
  out["router_weights"] = weights;
  return out;
}

nb::object finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::Stop:
      return nb::str("stop");
    case FinishReason::Length:
      return nb::str("length");
    case FinishReason::None:
      break;
  }
  return nb::none();
}

// A session's end waits for the computation that runs. That one may be about to ask Python whether to go on, so the
// interpreter must not be held meanwhile.
std::shared_ptr<Session> make_session(Engine& engine) {
  std::shared_ptr<Session> session = engine.session();
  Session* const address = session.get();
  return {address, [session = std::move(session)](Session*) mutable {
            const nb::gil_scoped_release release;
            session.reset();
          }};
}

using TokenMask = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A generation as Python sees it: the C++ one and the count of its tokens.
struct PyGeneration {
  std::unique_ptr<Generation> generation;
  int64_t tokens = 0;

  GeneratedToken next(const nb::object& interrupt, const std::optional<TokenMask>& mask) {
    const auto words = mask ? std::span(mask->data(), mask->size()) : std::span<const uint32_t>();
    const nb::gil_scoped_release release;
    GeneratedToken token = generation->next(make_interrupt(interrupt), words);
    tokens++;
    return token;
  }
};

}  // namespace

NB_MODULE(_core, m) {
  bind_exceptions(m);

  m.def("cpu_isas", &cpu_isas);
  m.def("backends", &backend_names);
  m.def(
      "plan",
      [](const std::string& path, uint64_t memory, int64_t context, const std::string& kv, int chunk,
         std::optional<uint64_t> state_memory, const std::string& backend, uint64_t host_memory) {
        EngineOptions options;
        options.memory = memory;
        options.context = context;
        options.kv = parse_kv(kv);
        options.chunk = chunk;
        options.state_memory = state_memory;
        options.backend.name = backend;
        options.host_memory = host_memory;
        return to_dict(plan_container(path, options));
      },
      "path"_a, nb::kw_only(), "memory"_a = 0, "context"_a = 0, "kv"_a = "f16", "chunk"_a = 0,
      "state_memory"_a = nb::none(), "backend"_a = "auto", "host_memory"_a = 0);

  m.def("check_container", [](const std::string& path) { open_qpack(path); }, "path"_a);
  m.def(
      "bench_io",
      [](const std::string& path, double seconds, int threads, const std::string& io) {
        IoBench result;
        {
          const nb::gil_scoped_release release;
          result = bench_io(open_qpack(path), parse_io(io), threads, seconds);
        }
        nb::dict d;
        d["reads"] = result.reads;
        d["bytes"] = result.bytes;
        d["seconds"] = result.seconds;
        d["io"] = result.direct ? "direct" : "buffered";
        return d;
      },
      "path"_a, nb::kw_only(), "seconds"_a = 3.0, "threads"_a = 8, "io"_a = "auto");

  nb::class_<SamplingParams>(m, "SamplingParams")
      .def(nb::init<>())
      .def_rw("max_tokens", &SamplingParams::max_tokens)
      .def_rw("temperature", &SamplingParams::temperature)
      .def_rw("top_p", &SamplingParams::top_p)
      .def_rw("top_k", &SamplingParams::top_k)
      .def_rw("min_p", &SamplingParams::min_p)
      .def_rw("repetition_penalty", &SamplingParams::repetition_penalty)
      .def_rw("presence_penalty", &SamplingParams::presence_penalty)
      .def_rw("frequency_penalty", &SamplingParams::frequency_penalty)
      .def_rw("seed", &SamplingParams::seed)
      .def_rw("logprobs", &SamplingParams::logprobs)
      .def_rw("ignore_eos", &SamplingParams::ignore_eos)
      .def_rw("logit_bias", &SamplingParams::logit_bias)
      .def_rw("stop_token_ids", &SamplingParams::stop_token_ids);

  nb::class_<GeneratedToken>(m, "Token")
      .def_prop_ro("id", [](const GeneratedToken& t) { return t.token.id; })
      .def_prop_ro("logprob", [](const GeneratedToken& t) { return t.token.logprob; })
      .def_prop_ro("top_logprobs", [](const GeneratedToken& t) { return t.token.top_logprobs; })
      .def_prop_ro("finish_reason", [](const GeneratedToken& t) { return finish_name(t.finish); });

  nb::class_<Session>(m, "Session")
      .def_prop_ro("position", &Session::position)
      .def_prop_ro("tokens", [](const Session& s) { return s.tokens(); })
      .def_prop_ro("valid", &Session::valid)
      .def("reset", &Session::reset, nb::call_guard<nb::gil_scoped_release>());

  nb::class_<PyGeneration>(m, "Generation")
      .def("next", &PyGeneration::next, "interrupt"_a = nb::none(), "mask"_a = nb::none())
      .def_prop_ro("prefill_progress", [](const PyGeneration& g) { return g.generation->prefill_progress(); })
      .def_prop_ro("stats", [](const PyGeneration& g) { return to_dict(g.generation->stats(), g.tokens); });

  nb::class_<Engine>(m, "Engine")
      .def(nb::new_([](const std::string& path, uint64_t memory, int64_t context, const std::string& kv, int chunk,
                       const std::string& backend, int threads, const std::string& isa, const std::string& io,
                       int io_threads, uint64_t host_memory, uint64_t pool_slots, const std::string& prefetch,
                       bool watch_pressure, const std::string& trace, std::optional<uint64_t> state_memory,
                       const std::string& state_dir, uint64_t state_disk) {
             const EngineOptions options =
                 make_options(memory, context, kv, chunk, backend, threads, isa, io, io_threads, host_memory,
                              pool_slots, prefetch, watch_pressure, trace, state_memory, state_dir, state_disk);
             const nb::gil_scoped_release release;
             return Engine::open(path, options);
           }),
           "path"_a, nb::kw_only(), "memory"_a = 0, "context"_a = 0, "kv"_a = "f16", "chunk"_a = 0,
           "backend"_a = "auto", "threads"_a = 0, "isa"_a = "auto", "io"_a = "auto", "io_threads"_a = 8,
           "host_memory"_a = 0, "pool_slots"_a = 0, "prefetch"_a = "auto", "watch_pressure"_a = false, "trace"_a = "",
           "state_memory"_a = nb::none(), "state_dir"_a = "", "state_disk"_a = EngineOptions().state_disk)
      .def_prop_ro("plan", [](const Engine& e) { return to_dict(e.plan()); })
      .def_prop_ro("config", &engine_config)
      .def_prop_ro("stats", &engine_stats)
      .def("session", &make_session)
      .def(
          "generate",
          [](Engine& e, std::shared_ptr<Session> session, std::vector<int32_t> ids, const SamplingParams& params,
             const std::vector<std::pair<int64_t, bool>>& boundaries) {
            std::vector<Boundary> places;
            for (const auto& [position, passing] : boundaries) places.push_back({position, passing});
            return PyGeneration{e.generate(std::move(session), std::move(ids), params, std::move(places))};
          },
          "session"_a, "ids"_a, "params"_a, "boundaries"_a = std::vector<std::pair<int64_t, bool>>())
      .def("forward", &engine_forward, "session"_a, "ids"_a, nb::kw_only(), "capture"_a = false,
           "interrupt"_a = nb::none())
      .def(
          "state",
          [](Engine& e, Session& session, int layer) {
            nb::dict d;
            std::vector<StateTensor> tensors;
            {
              const nb::gil_scoped_release release;
              tensors = e.state(session, layer);
            }
            for (StateTensor& t : tensors) d[t.name.c_str()] = to_numpy(std::move(t.values), t.shape);
            return d;
          },
          "session"_a, "layer"_a)
      .def("save_states", &Engine::save_states, "session"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("forget", &Engine::forget, nb::call_guard<nb::gil_scoped_release>())
      .def("take_warnings", &Engine::take_warnings)
      .def("set_memory", &Engine::set_memory, "memory"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("relieve_pressure", &Engine::relieve_pressure, nb::call_guard<nb::gil_scoped_release>());
}
