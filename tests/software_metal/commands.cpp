#include "commands.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "foundation.h"
#include "hazards.h"

namespace software_metal {
namespace {

constexpr size_t kMostThreads = 1024;            // of a threadgroup
constexpr size_t kMostBytes = 4096;              // of setBytes
constexpr size_t kMostThreadgroupBytes = 32768;  // of memory
constexpr size_t kConcurrent = 1;                // MTLDispatchTypeConcurrent

enum Status : size_t { NotEnqueued = 0, Committed = 2, Completed = 4, Failed = 5 };  // MTLCommandBufferStatus

struct Queue;

struct CommandBuffer : Object {
  CommandBuffer(Queue* to, bool retains);
  void dispose() override;

  void keep(Object* object) {
    if (!retains_references) return;
    retain(object);
    kept.push_back(object);
  }

  Queue* queue;
  bool retains_references;
  Commands commands;
  std::vector<Object*> kept;
  int open_encoders = 0;
  Object* error = nullptr;
  Status status = NotEnqueued;  // guarded by the queue's mutex
};

// Runs command buffers on a thread of its own, one at a time, in the order in which they were committed: what the CPU
// reads too early it finds unwritten.
struct Queue : Object {
  explicit Queue(size_t most) : Object("MTLCommandQueue"), most_alive(most), thread([this] { work(); }) {}

  void dispose() override {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    // The last reference can be one that a finished command buffer held.
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stop || !committed.empty(); });
      if (committed.empty()) return;
      CommandBuffer* next = committed.front();
      committed.pop_front();
      lock.unlock();
      const std::string failure = run(next->commands);
      if (!failure.empty()) next->error = new Error(failure);
      lock.lock();
      next->status = failure.empty() ? Completed : Failed;
      changed.notify_all();
      lock.unlock();
      release(next);
      end_background();
      lock.lock();
    }
  }

  size_t most_alive;
  std::atomic<size_t> alive{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<CommandBuffer*> committed;
  bool stop = false;
  std::thread thread;
};

CommandBuffer::CommandBuffer(Queue* to, bool retains)
    : Object("MTLCommandBuffer"), queue(to), retains_references(retains) {
  retain(queue);
  // Metal would wait here for one to finish, which is easily forever.
  if (++queue->alive > queue->most_alive) report("more command buffers are alive than the queue allows");
}

void CommandBuffer::dispose() {
  if (status == NotEnqueued && !commands.dispatches.empty()) report("a command buffer was dropped uncommitted");
  for (Object* each : kept) release(each);
  commands = {};
  release(error);
  --queue->alive;
  release(queue);
}

struct Encoder : Object {
  Encoder(CommandBuffer* to, bool overlapping)
      : Object("MTLComputeCommandEncoder"), buffer(to), concurrent(overlapping) {
    retain(buffer);
    ++buffer->open_encoders;
  }

  void dispose() override {
    if (!ended) report("an encoder was released without endEncoding");
    release(buffer);
  }

  // Whether there is anything to be encoded to.
  bool open(const char* what) const {
    if (ended) report(std::string(what) + " after endEncoding");
    return !ended;
  }

  CommandBuffer* buffer;
  bool concurrent;
  bool ended = false;
  Dispatch current;  // what was set so far; the next dispatch takes it
  std::array<size_t, kMostBuffers> threadgroup_bytes{};
  Hazards hazards;
};

void set_argument(Encoder& encoder, size_t index, Argument argument) {
  if (index >= kMostBuffers) return report("buffer index " + std::to_string(index) + " is over 30");
  encoder.current.arguments[index] = std::move(argument);
}

// Whether the dispatch can run; reports what is wrong with it.
bool check_dispatch(Encoder& encoder, const Dispatch& dispatch) {
  if (!dispatch.pipeline) {
    report("a dispatch without a pipeline state");
    return false;
  }
  const std::string& name = dispatch.pipeline->name;
  const size_t threads = dispatch.group.width * dispatch.group.height * dispatch.group.depth;
  if (threads == 0 || threads > kMostThreads || threads % 32 || threads != dispatch.group.width) {
    report(name + ": threadgroups of " + std::to_string(threads) + " threads");
    return false;
  }
  if (dispatch.groups.width * dispatch.groups.height * dispatch.groups.depth == 0) {
    report(name + ": a dispatch of no threadgroups");
    return false;
  }
  bool complete = true;
  for (const Parameter& each : dispatch.pipeline->kernel->parameters()) {
    const Argument& argument = dispatch.arguments[each.index];
    const std::string which = name + ": buffer " + std::to_string(each.index);
    if (!argument.bound()) {
      report(which + " is not bound");
      complete = false;
    } else if ((each.bytes > 0) != argument.has_bytes) {
      report(which + (each.bytes > 0 ? " must be set with setBytes" : " must be a buffer, not bytes"));
      complete = false;
    } else if (each.bytes > argument.bytes.size()) {
      report(which + " takes " + std::to_string(each.bytes) + " bytes, not " + std::to_string(argument.bytes.size()));
      complete = false;
    }
  }
  if (complete && encoder.concurrent) encoder.hazards.check(dispatch);
  return complete;
}

void dispatch_threadgroups(Encoder& encoder, Size groups, Size group) {
  if (!encoder.open("dispatchThreadgroups")) return;
  Dispatch dispatch = encoder.current;
  dispatch.groups = groups;
  dispatch.group = group;
  if (!check_dispatch(encoder, dispatch)) return;
  encoder.buffer->keep(dispatch.pipeline);
  for (const Argument& each : dispatch.arguments) {
    if (!each.buffer) continue;
    encoder.buffer->keep(each.buffer);
    encoder.buffer->commands.used.insert(each.buffer);
  }
  encoder.buffer->commands.dispatches.push_back(std::move(dispatch));
}

void commit(CommandBuffer& buffer) {
  if (buffer.open_encoders > 0) return report("commit with an open encoder");
  Queue& queue = *buffer.queue;
  const std::lock_guard lock(queue.mutex);
  if (buffer.status != NotEnqueued) return report("a command buffer was committed twice");
  buffer.status = Committed;
  retain(&buffer);
  begin_background();
  queue.committed.push_back(&buffer);
  queue.changed.notify_all();
}

void wait_until_completed(CommandBuffer& buffer) {
  std::unique_lock lock(buffer.queue->mutex);
  if (buffer.status == NotEnqueued) return report("waiting for a command buffer that was not committed");
  buffer.queue->changed.wait(lock, [&] { return buffer.status >= Completed; });
}

Object* new_encoder(CommandBuffer* buffer, bool concurrent) {
  if (buffer->open_encoders > 0) report("a second encoder while the first is open");
  if (buffer->status != NotEnqueued) report("an encoder for a command buffer that was committed");
  return autorelease(new Encoder(buffer, concurrent));
}

void define_encoder() {
  constexpr auto kEncoder = "MTLComputeCommandEncoder";
  define(kEncoder, "setComputePipelineState:", [](Encoder* self, Selector, Pipeline* pipeline) {
    if (self->open("setComputePipelineState")) self->current.pipeline = pipeline;
  });
  define(kEncoder,
         "setBuffer:offset:atIndex:", [](Encoder* self, Selector, Buffer* buffer, size_t offset, size_t index) {
           if (!self->open("setBuffer")) return;
           if (buffer && offset >= buffer->bytes) report("setBuffer: the offset is past the end of the buffer");
           set_argument(*self, index, {buffer, offset, false, {}});
         });
  define(kEncoder,
         "setBytes:length:atIndex:", [](Encoder* self, Selector, const void* bytes, size_t length, size_t index) {
           if (!self->open("setBytes")) return;
           if (length > kMostBytes) return report("setBytes: " + std::to_string(length) + " bytes, the most is 4096");
           set_argument(*self, index, {nullptr, 0, true, std::string(static_cast<const char*>(bytes), length)});
         });
  define(kEncoder, "setThreadgroupMemoryLength:atIndex:", [](Encoder* self, Selector, size_t length, size_t index) {
    if (!self->open("setThreadgroupMemoryLength")) return;
    if (length % 16) report("setThreadgroupMemoryLength: not a multiple of 16");
    if (index >= kMostBuffers) return report("setThreadgroupMemoryLength: index over 30");
    self->threadgroup_bytes[index] = length;
    size_t sum = 0;
    for (const size_t each : self->threadgroup_bytes) sum += each;
    if (sum > kMostThreadgroupBytes)
      report(std::to_string(sum) + " bytes of threadgroup memory, the most is " +
             std::to_string(kMostThreadgroupBytes));
  });
  define(kEncoder, "dispatchThreadgroups:threadsPerThreadgroup:", [](Encoder* self, Selector, Size groups, Size group) {
    dispatch_threadgroups(*self, groups, group);
  });
  define(kEncoder, "memoryBarrierWithScope:", [](Encoder* self, Selector, size_t) {
    if (self->open("memoryBarrier")) self->hazards.clear();
  });
  define(kEncoder, "useResource:usage:", [](Encoder* self, Selector, Buffer* buffer, size_t) {
    if (!self->open("useResource")) return;
    self->buffer->keep(buffer);
    self->buffer->commands.used.insert(buffer);
  });
  define(kEncoder, "endEncoding", [](Encoder* self, Selector) {
    if (!self->open("endEncoding")) return;
    self->ended = true;
    --self->buffer->open_encoders;
  });
}

}  // namespace

Object* make_queue(size_t most_command_buffers) { return new Queue(most_command_buffers); }

void define_commands() {
  define("MTLCommandQueue", "commandBuffer",
         [](Queue* self, Selector) -> Object* { return autorelease(new CommandBuffer(self, true)); });
  define("MTLCommandQueue", "commandBufferWithUnretainedReferences",
         [](Queue* self, Selector) -> Object* { return autorelease(new CommandBuffer(self, false)); });

  constexpr auto kBuffer = "MTLCommandBuffer";
  define(kBuffer, "computeCommandEncoder",
         [](CommandBuffer* self, Selector) -> Object* { return new_encoder(self, false); });
  define(kBuffer, "computeCommandEncoderWithDispatchType:", [](CommandBuffer* self, Selector, size_t type) -> Object* {
    return new_encoder(self, type == kConcurrent);
  });
  define(kBuffer, "commit", [](CommandBuffer* self, Selector) { commit(*self); });
  define(kBuffer, "waitUntilCompleted", [](CommandBuffer* self, Selector) { wait_until_completed(*self); });
  define(kBuffer, "status", [](CommandBuffer* self, Selector) -> size_t {
    const std::lock_guard lock(self->queue->mutex);
    return self->status;
  });
  define(kBuffer, "error", [](CommandBuffer* self, Selector) -> Object* { return self->error; });
  define_encoder();
}

}  // namespace software_metal
