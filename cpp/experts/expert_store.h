// Experts on disk, and the bounded pool of slots they are streamed into.
//
// One expert is one aligned blob, read by one pread of an I/O thread into one slot. The store reads and remembers; it
// never knows what an expert means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/slot_heap.h"
#include "container/qpack.h"

namespace swiftlet {

// Direct reads bypass the page cache (where the file system cannot, they are buffered). Buffered reads leave behind in
// the page cache what they read: memory that is not this process's and that the system takes back when it is short.
// Auto is direct, unless a short probe finds most of the container cached and memory has room for all of it.
enum class IoMode { Auto, Direct, Buffered };

struct ExpertStoreOptions {
  uint64_t budget_bytes = 0;  // of the pool; never exceeded by slots in memory
  int io_threads = 8;         // reads in flight
  IoMode io = IoMode::Auto;
  double half_life = 16;  // of a use in the replacement policy, in tokens
  // Called when slot memory comes into being and before it goes (a GPU maps it), in segments of many slots, none of
  // them in use; one that is cut goes and comes back smaller. On any thread, one call at a time, with the store locked:
  // they must not call it. The first may throw to refuse new memory, but not a segment that comes back. May be empty.
  std::function<void(const std::byte* base, size_t bytes)> on_memory_added;
  std::function<void(const std::byte* base)> on_memory_removed;
  // Where slots lie, if not in this process's memory. Outlives the store.
  SlotHeap* heap = nullptr;
  // With a heap: bytes of host memory that experts are copied from instead of read, once they have been read and while
  // they last; allocated at once. At least HostTier::least_slots(io_threads) slots, or 0: none.
  uint64_t host_bytes = 0;
  // Experts are handed out as they were read, for their user to bring them into an order of its own: see ReadyExpert.
  // Not with a heap, and hold() must not be used.
  bool user_orders = false;
  // Instead of reading the layer's file (tests: slow disks, short reads, errors). On the I/O threads. May be empty.
  std::function<void(int layer, int expert, std::byte* slot, uint64_t bytes)> read;
};

struct ExpertStats {
  uint64_t hits = 0;        // experts asked for that were resident
  uint64_t misses = 0;      // experts asked for that were not (a guessed read still in flight is a miss)
  uint64_t bytes_read = 0;  // from disk
  uint64_t reads = 0;
  uint64_t host_hits = 0;   // experts that were copied from host memory instead
  uint64_t host_bytes = 0;  // of those
  uint64_t evictions = 0;
  uint64_t guesses = 0;     // guessed reads started
  uint64_t guess_hits = 0;  // of those, asked for before they were evicted
  double wait_seconds = 0;  // the computing thread had nothing to do but wait for a read
};

struct ReadyExpert {
  int expert;
  std::byte* slot;
  // With `user_orders`: whether the slot holds what was read. The thread that called next() clears it, while the expert
  // is in use, once it has brought it into its own order. An expert that comes back with it set is dropped, as nobody
  // knows whether its user had begun.
  bool* as_read;
};

// The slots of all experts of a layer, by id. The version, never 0, is another one when they are others or their memory
// was added anew.
struct ResidentLayer {
  std::span<const std::byte* const> slots;
  uint64_t version;
};

class ExpertStore {
 public:
  // Throws ErrorKind::Memory if the budget cannot hold one slot for each of `min_slots` experts, or host memory too
  // few.
  ExpertStore(const Qpack& qpack, const ExpertStoreOptions& options, int min_slots);
  ~ExpertStore();

  // The experts that a chunk needs of one layer. Hits are pinned at once and the reads of the misses begin, in the
  // order given, as slots come free. Only one request at a time: until next() came back empty (without a `finish`) or
  // the request was destroyed, which unpins everything and drops reads that have not begun.
  class Request {
   public:
    Request(Request&&) noexcept;
    Request& operator=(Request&&) noexcept;
    ~Request();
    // Experts that are ready and were not handed out yet: any that are, or with `in_order` the longest run of the
    // request's order that is. Waits until there is at least one; empty when all have been handed out. Throws
    // ErrorKind::Io naming layer, expert and file when a read failed.
    // Those of earlier calls are unpinned, as the caller has finished with them; or, if there is a `finish`, they stay
    // pinned until their slots are needed for others of this request: then it is called, and returns when the caller
    // has finished with them.
    std::vector<ReadyExpert> next(bool in_order, const std::function<void()>& finish = {});

   private:
    friend class ExpertStore;
    struct Impl;
    explicit Request(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };
  // `experts`: ids without repeats, ascending. `tokens` of the chunk: old uses fade by as many.
  Request request(int layer, std::span<const int32_t> experts, int tokens = 1);

  // The slots of a layer of which all experts are resident, or nothing. From then on no expert leaves the pool, nor
  // does a read take the place of one, until release_held().
  std::optional<ResidentLayer> hold(int layer);
  // What was chosen from a held layer, for statistics and policy: as request() counts it.
  void used(int layer, std::span<const int32_t> experts, int tokens);
  void release_held();

  // Experts of a layer yet to come in this pass: read in idle time, in the order given, some tens at a time, into slots
  // that nothing hotter occupies. Guesses for a layer end with the request for it.
  void guess(int layer, std::span<const int32_t> experts);
  void drop_guesses();

  // A new budget, from any thread. Shrinking keeps the hottest experts and gives memory back to the system at once; of
  // segments in use when they are unpinned, until when no read begins. Throws ErrorKind::Memory below min_slots.
  void set_budget(uint64_t bytes);
  uint64_t budget() const;
  uint64_t resident_bytes() const;  // of slots mapped now: memory is taken in segments, at most 32 slots at a time
  uint64_t slot_bytes() const;
  bool direct_io() const;

  ExpertStats stats() const;  // since the store was made; callers subtract

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace swiftlet
