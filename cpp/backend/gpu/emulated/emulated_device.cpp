#include "backend/gpu/emulated/emulated_device.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "backend/cpu/thread_pool.h"
#include "backend/gpu/emulated/guarded_memory.h"
#include "backend/gpu/emulated/threadgroup.h"
#include "base/error.h"
#include "base/memory.h"

namespace swiftlet::gpu {
namespace {

using namespace emulated;

// Function constants are variables of the translated shaders: one dispatch at a time in the process.
std::mutex running;
std::set<std::string> pipelines_run;

struct EmulatedPipeline : Pipeline {
  std::string name;  // with its constants
  const Library* library;
  const KernelInfo* kernel;
  std::vector<Constant> constants;
};

struct EmulatedMemory;

// What the device and its memories share; memories are made and destroyed on any thread.
struct State {
  std::mutex mutex;
  std::set<const EmulatedMemory*> memories;
  uint64_t waited = 0;  // tickets up to this one are done, as the CPU knows
  std::string failure;  // for the next wait()
};

struct EmulatedMemory : Memory {
  std::shared_ptr<State> state;
  Placement placement = Placement::Shared;
  std::optional<GuardedMemory> own;  // none: the caller's
  std::byte* data = nullptr;
  size_t size = 0;
  mutable uint64_t last_use = 0;  // the ticket of the last dispatch that was bound to it

  ~EmulatedMemory() override {
    const std::lock_guard lock(state->mutex);
    state->memories.erase(this);
    if (last_use > state->waited && state->failure.empty())
      state->failure = "memory of " + std::to_string(size) + " bytes was given back while dispatches use it";
  }
  size_t bytes() const override { return size; }
  std::byte* host() const override { return placement == Placement::Shared ? data : nullptr; }
  uint64_t address() const override { return reinterpret_cast<uint64_t>(data); }
};

const EmulatedMemory& emulated_memory(const Memory& memory) { return static_cast<const EmulatedMemory&>(memory); }

struct Launch {
  const EmulatedPipeline* pipeline;
  std::vector<Binding> buffers;
  std::array<std::byte, 256> arguments;
  Grid groups;
  uint32_t threads;
  uint64_t section;  // dispatches of one section have no barrier between them
};

struct Commit {
  uint64_t ticket;
  std::vector<Launch> launches;
};

// Who uses a memory since the last barrier.
struct Use {
  const KernelInfo* kernel;
  bool written;
};

std::string name_of(const KernelInfo& kernel) {
  return std::string(kernel.file) + ":" + std::to_string(kernel.line) + ": kernel " + kernel.name;
}

class EmulatedDevice : public Device {
 public:
  explicit EmulatedDevice(const EmulatedOptions& options)
      : options_(options), state_(std::make_shared<State>()), pool_(options.threads) {
    libraries_.assign(libraries().begin(), libraries().end());
    libraries_.insert(libraries_.end(), options.more.begin(), options.more.end());
  }

  std::string description() const override {
    return options_.order == Order::Forwards ? "emulated (forwards)" : "emulated (backwards)";
  }
  bool matrix_units() const override { return options_.matrix_units; }
  std::optional<OwnMemory> own_memory() const override {
    return options_.own_memory ? std::optional(OwnMemory{0, available_memory_bytes()}) : std::nullopt;
  }

  std::unique_ptr<Memory> allocate(size_t bytes, Placement placement) override {
    auto memory = std::make_unique<EmulatedMemory>();
    memory->placement = placement;
    memory->own.emplace(bytes);
    memory->data = memory->own->data();
    memory->size = bytes;
    return add(std::move(memory));
  }

  std::unique_ptr<Memory> wrap(const std::byte* base, size_t bytes) override {
    if (reinterpret_cast<uintptr_t>(base) % 4096 != 0 || bytes % 4096 != 0)
      fail(ErrorKind::Input, "wrap: the memory must be whole pages, not ", bytes, " bytes at ",
           static_cast<const void*>(base));
    if (options_.own_memory) {
      std::unique_ptr<Memory> copy = allocate(bytes, Placement::Private);
      std::memcpy(emulated_memory(*copy).data, base, bytes);
      return copy;
    }
    auto memory = std::make_unique<EmulatedMemory>();
    memory->data = const_cast<std::byte*>(base);
    memory->size = bytes;
    return add(std::move(memory));
  }

  void read(const Memory& from, uint64_t offset, void* to, size_t bytes) override {
    std::memcpy(to, range("read", from, offset, bytes), bytes);
  }
  void write(Memory& to, uint64_t offset, const void* from, size_t bytes) override {
    std::memcpy(range("write", to, offset, bytes), from, bytes);
  }
  void clear(Memory& memory) override { std::memset(range("clear", memory, 0, memory.bytes()), 0, memory.bytes()); }

  // Slots beside the one that is copied may be in use.
  std::shared_ptr<std::byte> staging(size_t bytes) override {
    auto memory = std::make_shared<PageMemory>(bytes);
    return {memory, memory->data()};
  }
  void upload(const Memory& to, uint64_t offset, const std::byte* from, size_t bytes) override {
    std::memcpy(part("upload", to, offset, bytes), from, bytes);
  }
  void download(const Memory& from, uint64_t offset, std::byte* to, size_t bytes) override {
    std::memcpy(to, part("download", from, offset, bytes), bytes);
  }
  void copy(const Memory& to, uint64_t to_offset, const Memory& from, uint64_t from_offset, size_t bytes) override {
    std::memcpy(part("copy", to, to_offset, bytes), part("copy", from, from_offset, bytes), bytes);
  }

  const Pipeline& pipeline(const Kernel& kernel, std::span<const Constant> constants) override {
    std::ostringstream name;
    name << kernel.file << "." << kernel.name;
    for (const Constant& constant : constants) name << " " << constant.index << "=" << constant.value;
    std::unique_ptr<EmulatedPipeline>& result = pipelines_[name.str()];
    if (!result) result = std::make_unique<EmulatedPipeline>(make_pipeline(name.str(), kernel, constants));
    return *result;
  }

  void dispatch(const Pipeline& pipeline, std::span<const Binding> buffers, const void* arguments,
                size_t argument_bytes, Grid groups, uint32_t threads) override {
    const auto& p = static_cast<const EmulatedPipeline&>(pipeline);
    check_dispatch(*p.kernel, buffers, argument_bytes, groups, threads);
    check_hazards(*p.kernel, buffers);
    Launch launch{&p, {buffers.begin(), buffers.end()}, {}, groups, threads, section_};
    if (argument_bytes > 0) std::memcpy(launch.arguments.data(), arguments, argument_bytes);
    queue_.push_back(std::move(launch));
    for (const Binding& binding : buffers) emulated_memory(*binding.memory).last_use = next_ticket_;
    ++counters_.dispatches;
  }

  void barrier() override {
    ++section_;
    uses_.clear();
  }

  void use(const Memory& memory) override { emulated_memory(memory).last_use = next_ticket_; }

  uint64_t commit() override {
    if (queue_.empty()) return next_ticket_ - 1;
    committed_.push_back({next_ticket_, std::move(queue_)});
    queue_.clear();
    ++counters_.commits;
    if (options_.order == Order::Forwards) run_up_to(next_ticket_);
    return next_ticket_++;
  }

  void wait(uint64_t ticket) override {
    if (ticket >= next_ticket_) fail(ErrorKind::Input, "wait: ticket ", ticket, " was not given yet");
    if (ticket <= state_->waited) return;
    ++counters_.waits;
    run_up_to(ticket);
    std::string failure;
    {
      const std::lock_guard lock(state_->mutex);
      state_->waited = ticket;
      failure.swap(state_->failure);
    }
    if (ticket == next_ticket_ - 1 && queue_.empty()) uses_.clear();
    if (!failure.empty()) fail(ErrorKind::Numeric, failure);
  }

  Counters counters() const override { return counters_; }

 private:
  std::unique_ptr<Memory> add(std::unique_ptr<EmulatedMemory> memory) {
    memory->state = state_;
    const std::lock_guard lock(state_->mutex);
    state_->memories.insert(memory.get());
    return memory;
  }

  static std::byte* part(const char* what, const Memory& memory, uint64_t offset, size_t bytes) {
    const EmulatedMemory& m = emulated_memory(memory);
    if (offset > m.size || bytes > m.size - offset)
      fail(ErrorKind::Input, what, ": ", bytes, " bytes at ", offset, " are not in a memory of ", m.size, " bytes");
    return m.data + offset;
  }

  // For the CPU's own accesses.
  std::byte* range(const char* what, const Memory& memory, uint64_t offset, size_t bytes) {
    const EmulatedMemory& m = emulated_memory(memory);
    std::byte* const data = part(what, memory, offset, bytes);
    if (m.last_use > state_->waited)
      fail(ErrorKind::Input, what, ": a memory of ", m.size, " bytes is in use by dispatches that were not waited for");
    return data;
  }

  EmulatedPipeline make_pipeline(const std::string& name, const Kernel& kernel,
                                 std::span<const Constant> constants) const {
    EmulatedPipeline result;
    result.name = name;
    const auto library = std::find_if(libraries_.begin(), libraries_.end(),
                                      [&](const Library* l) { return std::strcmp(l->file, kernel.file) == 0; });
    if (library == libraries_.end()) fail(ErrorKind::Input, "there is no shader ", kernel.file, ".metal");
    result.library = *library;
    const auto found = std::find_if(result.library->kernels.begin(), result.library->kernels.end(),
                                    [&](const KernelInfo& k) { return std::strcmp(k.name, kernel.name) == 0; });
    if (found == result.library->kernels.end())
      fail(ErrorKind::Input, kernel.file, ".metal has no kernel ", kernel.name);
    result.kernel = &*found;
    std::set<uint32_t> seen;
    for (const Constant& constant : constants) {
      const auto& known = result.library->constants;
      if (std::none_of(known.begin(), known.end(),
                       [&](const FunctionConstant* c) { return c->index == constant.index; }))
        fail(ErrorKind::Input, kernel.file, ".metal has no function constant ", constant.index);
      if (!seen.insert(constant.index).second)
        fail(ErrorKind::Input, kernel.name, ": function constant ", constant.index, " is given twice");
    }
    result.constants.assign(constants.begin(), constants.end());
    return result;
  }

  static void check_dispatch(const KernelInfo& kernel, std::span<const Binding> buffers, size_t argument_bytes,
                             Grid groups, uint32_t threads) {
    const SignatureInfo& signature = kernel.signature;
    const std::string name = name_of(kernel);
    if (threads == 0 || threads % 32 != 0 || threads > 1024)
      fail(ErrorKind::Input, name, ": a threadgroup has a multiple of 32 threads, 1024 at most, not ", threads);
    if (groups.x == 0 || groups.y == 0 || groups.z == 0) fail(ErrorKind::Input, name, ": an empty grid");
    if (buffers.size() != signature.buffer_count)
      fail(ErrorKind::Input, name, ": takes ", signature.buffer_count, " buffers, not ", buffers.size());
    if (argument_bytes != signature.argument_bytes)
      fail(ErrorKind::Input, name, ": its struct of arguments has ", signature.argument_bytes, " bytes, not ",
           argument_bytes);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Binding& binding = buffers[i];
      const std::string buffer = name + ": buffer " + std::to_string(i) + " (" + kernel.buffer_names[i] + ")";
      if (!binding.memory) fail(ErrorKind::Input, buffer, ": no memory is bound");
      const uint64_t bytes = binding.memory->bytes();
      if (binding.offset >= bytes)
        fail(ErrorKind::Input, buffer, ": offset ", binding.offset, " is not in a memory of ", bytes, " bytes");
      if ((binding.memory->address() + binding.offset) % signature.buffers[i].alignment != 0)
        fail(ErrorKind::Input, buffer, ": offset ", binding.offset, " is not a multiple of ",
             signature.buffers[i].alignment);
      if (binding.written != signature.buffers[i].written)
        fail(ErrorKind::Input, buffer,
             binding.written ? ": is const in the kernel, and bound as written"
                             : ": can be written by the kernel, and is not bound as written");
    }
  }

  void check_hazards(const KernelInfo& kernel, std::span<const Binding> buffers) {
    for (const Binding& binding : buffers) {
      const auto used = uses_.find(binding.memory);
      if (used == uses_.end() || !(binding.written || used->second.written)) continue;
      fail(ErrorKind::Input, name_of(kernel), ": buffer ", &binding - buffers.data(), " (",
           kernel.buffer_names[&binding - buffers.data()], ") is ", used->second.written ? "written" : "read",
           " by kernel ", used->second.kernel->name, ", and there is no barrier between them");
    }
    for (const Binding& binding : buffers) {
      Use& use = uses_.try_emplace(binding.memory, Use{&kernel, false}).first->second;
      if (binding.written) use = {&kernel, true};
    }
  }

  // Runs what was committed, until something fails; then nothing more of it.
  void run_up_to(uint64_t ticket) {
    while (!committed_.empty() && committed_.front().ticket <= ticket) {
      std::vector<Launch> launches = std::move(committed_.front().launches);
      committed_.erase(committed_.begin());
      if (options_.order == Order::Backwards) reverse_sections(launches);
      try {
        for (const Launch& launch : launches) run(launch);
      } catch (const std::exception& error) {
        const std::lock_guard lock(state_->mutex);
        state_->failure = error.what();
        committed_.clear();
      }
    }
  }

  static void reverse_sections(std::vector<Launch>& launches) {
    for (auto begin = launches.begin(); begin != launches.end();) {
      const auto end =
          std::find_if(begin, launches.end(), [&](const Launch& l) { return l.section != begin->section; });
      std::reverse(begin, end);
      begin = end;
    }
  }

  void run(const Launch& launch) {
    const std::lock_guard lock(running);
    const EmulatedPipeline& pipeline = *launch.pipeline;
    const KernelInfo& kernel = *pipeline.kernel;
    for (FunctionConstant* constant : pipeline.library->constants) {
      constant->set = false;
      for (const Constant& given : pipeline.constants)
        if (given.index == constant->index) *constant = {constant->name, constant->index, given.value, true};
    }
    Args args{};
    for (size_t i = 0; i < launch.buffers.size(); ++i)
      args.buffers[i] = emulated_memory(*launch.buffers[i].memory).data + launch.buffers[i].offset;
    args.arguments = launch.arguments.data();
    const Grid& g = launch.groups;
    const bool backwards = options_.order == Order::Backwards;
    const GroupRun group_run{&kernel, &args, {g.x, g.y, g.z}, launch.threads, backwards};
    const int64_t count = int64_t(g.x) * g.y * g.z;
    try {
      const FaultHandler handler;
      pool_.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t n = backwards ? count - 1 - i : i;
          run_threadgroup(group_run, {uint32_t(n % g.x), uint32_t(n / g.x % g.y), uint32_t(n / g.x / g.y)});
        }
      });
    } catch (const AccessFault& fault) {
      fail(ErrorKind::Numeric, fault.kernel, ": ", describe_fault(launch, fault.address));
    }
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      const EmulatedMemory& memory = emulated_memory(*launch.buffers[i].memory);
      if (memory.own && !memory.own->slack_intact())
        fail(ErrorKind::Numeric, name_of(kernel), ": wrote beside the memory of buffer ", i, " (",
             kernel.buffer_names[i], ")");
    }
    pipelines_run.insert(pipeline.name);
  }

  std::string describe_fault(const Launch& launch, uintptr_t address) const {
    std::ostringstream out;
    const auto near = [&](const EmulatedMemory& memory) { return memory.own && memory.own->near(address); };
    const auto distance = [&](const EmulatedMemory& memory) {
      out << (int64_t(address) - int64_t(memory.address())) << " of " << memory.size << " bytes";
      return out.str();
    };
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      const EmulatedMemory& memory = emulated_memory(*launch.buffers[i].memory);
      if (!near(memory)) continue;
      out << "an access outside of buffer " << i << " (" << launch.pipeline->kernel->buffer_names[i] << "): byte ";
      return distance(memory);
    }
    const std::lock_guard lock(state_->mutex);
    for (const EmulatedMemory* memory : state_->memories)
      if (near(*memory)) {
        out << "an access outside of a memory that is not bound: byte ";
        return distance(*memory);
      }
    out << "an access to address " << reinterpret_cast<void*>(address) << ", which is in no memory of the device";
    return out.str();
  }

  EmulatedOptions options_;
  std::shared_ptr<State> state_;
  ThreadPool pool_;
  std::vector<const Library*> libraries_;
  std::map<std::string, std::unique_ptr<EmulatedPipeline>> pipelines_;
  std::vector<Launch> queue_;
  std::vector<Commit> committed_;
  std::map<const Memory*, Use> uses_;
  uint64_t section_ = 0;
  uint64_t next_ticket_ = 1;
  Counters counters_;
};

}  // namespace

std::unique_ptr<Device> make_emulated_device(const EmulatedOptions& options) {
  return std::make_unique<EmulatedDevice>(options);
}

EmulatedOptions emulated_options() {
  const char* value = std::getenv("SWIFTLET_EMULATED_ORDER");
  const bool own_memory = std::getenv("SWIFTLET_EMULATED_CARD") != nullptr;
  if (!value || std::strcmp(value, "forwards") == 0) return {.own_memory = own_memory};
  if (std::strcmp(value, "backwards") == 0)
    return {.order = Order::Backwards, .matrix_units = false, .own_memory = own_memory};
  fail(ErrorKind::Input, "SWIFTLET_EMULATED_ORDER is forwards or backwards, not ", value);
}

std::set<std::string> emulated_kernels() {
  std::set<std::string> result;
  for (const Library* library : libraries())
    for (const KernelInfo& kernel : library->kernels) result.insert(std::string(library->file) + "." + kernel.name);
  return result;
}

std::set<std::string> emulated_pipelines_run() {
  const std::lock_guard lock(running);
  return pipelines_run;
}

}  // namespace swiftlet::gpu
