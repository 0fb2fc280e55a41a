#include "engine/pressure.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/memory.h"

#ifdef __APPLE__
#include <dispatch/dispatch.h>
#else
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>
#endif

namespace swiftlet {
namespace {

using namespace std::chrono_literals;

#ifdef __APPLE__

// Tells of pressure that the system has announced since the last call.
class Source {
 public:
  Source() {
    source_ = dispatch_source_create(DISPATCH_SOURCE_TYPE_MEMORYPRESSURE, 0,
                                     DISPATCH_MEMORYPRESSURE_WARN | DISPATCH_MEMORYPRESSURE_CRITICAL,
                                     dispatch_get_global_queue(QOS_CLASS_UTILITY, 0));
    dispatch_set_context(source_, this);
    dispatch_source_set_event_handler_f(source_, [](void* self) { static_cast<Source*>(self)->announced_ = true; });
    dispatch_source_set_cancel_handler_f(
        source_, [](void* self) { dispatch_semaphore_signal(static_cast<Source*>(self)->cancelled_); });
    dispatch_activate(source_);
  }
  ~Source() {
    dispatch_source_cancel(source_);
    dispatch_semaphore_wait(cancelled_, DISPATCH_TIME_FOREVER);  // no handler runs any more
    dispatch_release(source_);
    dispatch_release(cancelled_);
  }
  bool pressed() { return announced_.exchange(false); }

 private:
  dispatch_source_t source_;
  dispatch_semaphore_t cancelled_ = dispatch_semaphore_create(0);
  std::atomic<bool> announced_ = false;
};

#else

class Source {
 public:
  Source() : fd_(open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC)) {
    // Tasks stalled on memory for 200 ms of 2 s, the shortest window that the system lets ordinary users watch.
    constexpr char kTrigger[] = "some 200000 2000000";
    if (fd_ >= 0 && write(fd_, kTrigger, sizeof kTrigger) < 0) {
      close(fd_);
      fd_ = -1;
    }
    room_at_start_ = available_memory_bytes();
  }
  ~Source() {
    if (fd_ >= 0) close(fd_);
  }

  bool pressed() const {
    if (fd_ >= 0) {
      pollfd event{fd_, POLLPRI, 0};
      if (poll(&event, 1, 0) > 0 && (event.revents & POLLPRI)) return true;
    }
    // PSI is the whole system's; a cgroup can be full while the system is at ease.
    return available_memory_bytes() < room_at_start_ / 20;
  }

 private:
  int fd_;
  uint64_t room_at_start_ = 0;
};

#endif

}  // namespace

struct PressureWatch::Impl {
  std::function<void()> on_pressure;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread thread;

  void run() {
    Source source;
    std::unique_lock lock(mutex);
    auto pause = 500ms;
    while (!wake.wait_for(lock, pause, [this] { return stop; })) {
      lock.unlock();
      pause = 500ms;
      try {
        if (source.pressed()) {
          pause = 1000ms;  // what was given back must have time to show
          on_pressure();
        }
      } catch (const std::exception&) {
        // No memory even for giving memory back: at the next look again.
      }
      lock.lock();
    }
  }
};

PressureWatch::PressureWatch(std::function<void()> on_pressure) : impl_(std::make_unique<Impl>()) {
  impl_->on_pressure = std::move(on_pressure);
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

PressureWatch::~PressureWatch() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  impl_->thread.join();
}

}  // namespace swiftlet
