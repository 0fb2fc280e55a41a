#include "backend/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace swiftlet {
namespace {

constexpr uint32_t kOpen = 1u << 31;
// Pieces become smaller towards the end of a loop: long ones are read from memory in long streams, short ones let all
// threads end at the same time, whatever their speed.
constexpr int64_t kSharesPerThread = 4;   // a piece is at most what is left over this and the threads
constexpr int64_t kPiecesPerThread = 32;  // .. and at least all over this and the threads

// The loops of one token follow each other sooner than a sleeping thread can be woken. While they do, threads look for
// the next loop for as long as this before they sleep.
using Clock = std::chrono::steady_clock;
constexpr Clock::duration kLook = std::chrono::microseconds(50);

thread_local bool inside_loop = false;  // this thread runs a piece: loops it starts run on it alone

// Waits until the value is not `old` any more.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old, bool look) {
  for (const auto start = Clock::now(); look && Clock::now() - start < kLook;) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

// One loop at a time. Its fields are written while the door is shut and nobody is inside, and read by those who came
// in through the open door. A worker that wakes too late finds it shut and sleeps again, so a loop never waits for
// threads that took no piece of it.
struct ThreadPool::Impl {
  std::mutex callers;
  std::atomic<uint32_t> door{0};        // kOpen, and the number of workers inside
  std::atomic<uint32_t> generation{0};  // counts loops; workers sleep on it
  std::atomic<bool> stopping{false};
  std::atomic<bool> burst{false};  // this loop came soon after the one before
  Clock::time_point last_end{};

  const std::function<void(int64_t, int64_t)>* body = nullptr;
  int64_t count = 0;
  int64_t grain = 0, least = 0;  // of a piece; least is a multiple of grain
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;

  std::vector<std::thread> workers;

  ~Impl() {
    stopping.store(true);
    generation.fetch_add(1);
    generation.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  // The next piece, if there is one left.
  bool take(int64_t& begin, int64_t& end) {
    const int64_t shares = kSharesPerThread * int64_t(workers.size() + 1);
    begin = next.load(std::memory_order_relaxed);
    do {
      if (begin >= count) return false;
      end = std::min(begin + std::max((count - begin) / shares / grain * grain, least), count);
    } while (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return true;
  }

  void run_pieces() noexcept {
    inside_loop = true;
    for (int64_t begin, end; take(begin, end);) {
      try {
        (*body)(begin, end);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
    inside_loop = false;
  }

  bool enter() {
    uint32_t seen = door.load(std::memory_order_relaxed);
    while (seen & kOpen)
      if (door.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    return false;
  }

  void leave() {
    if (door.fetch_sub(1, std::memory_order_acq_rel) == 1) door.notify_one();  // last one out, and the door is shut
  }

  void work() {
    for (uint32_t seen = 0; !stopping.load();) {
      wait_for_change(generation, seen, burst.load(std::memory_order_relaxed));
      seen = generation.load();
      if (enter()) {
        run_pieces();
        leave();
      }
    }
  }

  void open_door(int64_t pieces) {
    burst.store(Clock::now() - last_end < kLook, std::memory_order_relaxed);
    door.store(kOpen, std::memory_order_release);
    generation.fetch_add(1);
    if (pieces > int64_t(workers.size()))
      generation.notify_all();
    else
      for (int64_t i = 1; i < pieces; ++i) generation.notify_one();
  }

  void shut_door() {
    uint32_t inside = door.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    for (; inside != 0; inside = door.load(std::memory_order_acquire)) wait_for_change(door, inside, true);
    last_end = Clock::now();
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  if (threads < 1) fail(ErrorKind::Input, "a thread pool needs at least 1 thread, not ", threads);
  try {
    for (int i = 1; i < threads; ++i) impl_->workers.emplace_back([impl = impl_.get()] { impl->work(); });
  } catch (const std::system_error& error) {
    fail(ErrorKind::Input, "the system does not start ", threads, " threads (", error.what(), "); ask for fewer");
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return int(impl_->workers.size()) + 1; }

void ThreadPool::parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (count + grain - 1) / grain;
  if (threads() == 1 || grains == 1 || inside_loop) return body(0, count);

  const std::lock_guard one_loop(impl_->callers);
  const int64_t shares = int64_t(threads()) * kPiecesPerThread;
  impl_->body = &body;
  impl_->count = count;
  impl_->grain = grain;
  impl_->least = (grains + shares - 1) / shares * grain;
  impl_->next.store(0, std::memory_order_relaxed);
  impl_->open_door((count + impl_->least - 1) / impl_->least);
  impl_->run_pieces();
  impl_->shut_door();
  if (impl_->error) std::rethrow_exception(std::exchange(impl_->error, nullptr));
}

}  // namespace swiftlet
