// The pool of slots, the open request and the queue of guesses, under one mutex. I/O threads take the next read from
// them, and wait where there is none to begin.
#include "experts/expert_store.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "experts/expert_files.h"
#include "experts/host_tier.h"
#include "experts/policy.h"
#include "experts/slot_memory.h"

namespace swiftlet {

namespace {

// An expert that is needed waits behind the guesses in flight: few, but enough for the better part of a disk's speed.
constexpr int kGuessesInFlight = 2;
// Slots held by guesses that nobody has asked for yet. Reading on while a mixer computes needs no more, and more would
// cost a long prompt the experts that its next chunk finds in the pool.
constexpr size_t kGuessesHeld = 32;
// Of a long request, slots taken by its reads, for each read that can be in flight: one being read, one being used.
constexpr size_t kReadAhead = 2;

enum class Where : uint8_t { OnDisk, Guessed, Reading, InSlot };  // Guessed: queued to be read

// One expert of one layer.
struct Expert {
  std::byte* slot = nullptr;
  int32_t item = -1;  // its place in the open request, or -1
  Where where = Where::OnDisk;
  bool guess = false;    // read as a guess, and not asked for since
  bool held = false;     // a guess read for a layer whose turn is yet to come: other guesses leave it alone
  bool as_read = false;  // its user has not brought it into order yet
};

enum class Step : uint8_t { Waiting, Reading, Ready, InUse, Done };

// One expert of the open request.
struct Item {
  int32_t expert;
  Step step;
  bool hit;
  bool took;  // a slot, for its read
};

// A slot to read into, and the expert that leaves it, or -1: its bytes are still there.
struct Vacancy {
  std::byte* slot = nullptr;
  int leaving = -1;
};

struct Read {
  int key;
  bool guess;
  Vacancy to;
  // Where slots lie on a device: the host memory that the expert comes by, in which it may be already, and what the one
  // that leaves is copied to, or null.
  std::byte* host = nullptr;
  bool in_host = false;
  std::byte* kept = nullptr;
};

}  // namespace

struct ExpertStore::Request::Impl {
  std::shared_ptr<ExpertStore::Impl> store;
  int layer;
  std::vector<Item> items;
  std::vector<int32_t> in_use;  // items handed out by the last next()
  size_t first = 0;             // items before it have been handed out
  size_t waiting = 0;           // no item before it is Waiting
  size_t taken = 0;             // slots that its reads took and that were not released yet
  std::optional<Error> error;   // the first that a read met
  bool open = true;

  ~Impl();
  bool has_waiting();
};

struct ExpertStore::Impl {
  Impl(const Qpack& qpack, const ExpertStoreOptions& options, int min_slots);

  // Called with the mutex held.
  int key_of(int layer, int expert) const { return layer * expert_count + expert; }
  void check(int layer, std::span<const int32_t> ids, bool ascending) const;
  void check_budget(uint64_t bytes) const;
  std::byte* evict(int key);
  Vacancy evict_coldest();
  bool can_grow() const;
  bool has_room() const;
  bool slot_obtainable() const;
  Vacancy obtain_slot();
  void trim();
  void wake(size_t reads);
  bool may_read_ahead(int key) const;
  std::optional<Read> begin_needed();
  std::optional<Read> begin_guess();
  Read begin(int key, bool guess, Vacancy to);
  void end(const Read& read, const std::optional<Error>& error);
  void release(int key);
  void take_back(int key);
  void release_handed_out(Request::Impl& request);
  std::vector<ReadyExpert> take_ready(Request::Impl& request, bool in_order);
  void drop_furthest(Request::Impl& request);
  void end_guesses(int layer, bool new_pass);
  void close(Request::Impl& request);

  void run_io();
  void stop();
  std::optional<Error> read_expert(const Read& read) const;
  std::vector<ReadyExpert> next(Request::Impl& request, bool in_order, const std::function<void()>& finish);
  void count_use(int key);
  bool begin_layer(int layer, int tokens);

  const int layer_count, expert_count;
  const int min_slots;
  const bool user_orders;
  const std::function<void(int, int, std::byte*, uint64_t)> custom_read;
  SlotHeap* const heap;
  std::vector<uint64_t> strides;     // by layer
  std::vector<std::string> paths;    // by layer
  std::optional<ExpertFiles> files;  // none with a custom read

  mutable std::mutex mutex;
  std::condition_variable work;   // for I/O threads: a read may begin, or the store goes
  std::condition_variable ready;  // for the computing thread: a read ended
  bool stopping = false;

  uint64_t budget;
  SlotMemory memory;
  Policy policy;
  std::optional<HostTier> host;                       // with a heap
  std::vector<Expert> experts;                        // by key
  std::vector<int> resident;                          // by layer: experts in slots
  std::vector<uint64_t> moves;                        // by layer: how often that, a slot or its memory changed
  std::vector<std::vector<const std::byte*>> tables;  // by layer: of hold()
  std::vector<uint64_t> table_moves;                  // by layer: `moves` when the table was made
  bool holding = false;                               // nothing leaves the pool
  int last_layer = std::numeric_limits<int>::max();
  Request::Impl* request = nullptr;
  int reads_in_flight = 0;
  int guesses_in_flight = 0;
  std::deque<int> guesses;  // keys, Guessed
  std::vector<int> held;    // keys, Reading or InSlot
  ExpertStats stats;

  std::vector<std::thread> threads;
};

ExpertStore::Impl::Impl(const Qpack& qpack, const ExpertStoreOptions& options, int min_slots_)
    : layer_count(qpack.layer_count),
      expert_count(qpack.expert_count),
      min_slots(min_slots_),
      user_orders(options.user_orders),
      custom_read(options.read),
      heap(options.heap),
      budget(options.budget_bytes),
      memory(qpack.max_stride, options.on_memory_added, options.on_memory_removed, options.heap),
      policy(qpack.layer_count * qpack.expert_count, options.half_life),
      experts(static_cast<size_t>(qpack.layer_count) * static_cast<size_t>(qpack.expert_count)),
      resident(qpack.layer_count),
      moves(qpack.layer_count),
      tables(qpack.layer_count),
      table_moves(qpack.layer_count) {
  if (options.io_threads < 1) fail(ErrorKind::Input, options.io_threads, " I/O threads: at least 1 is needed");
  if (heap && user_orders) fail(ErrorKind::Input, "experts on a device's heap cannot be ordered by their user");
  if (!(options.half_life > 0))
    fail(ErrorKind::Input, "a half-life of ", options.half_life, " passes: it must be positive");
  check_budget(budget);
  for (int layer = 0; layer < layer_count; ++layer) {
    strides.push_back(qpack.layouts[layer].stride);
    paths.push_back(qpack.layer_path(layer));
  }
  const size_t host_slots = options.host_bytes / std::max<uint64_t>(memory.slot_bytes(), 1);
  if (options.host_bytes && (!heap || host_slots < HostTier::least_slots(options.io_threads)))
    fail(ErrorKind::Memory, "host memory of ", options.host_bytes, " bytes cannot serve ", options.io_threads,
         " reads");
  if (heap) {
    const size_t slots = host_slots ? host_slots : options.io_threads;
    host.emplace(layer_count * expert_count, options.half_life, heap->staging(slots * memory.slot_bytes()), slots,
                 memory.slot_bytes(), host_slots > 0);
  }
  if (!custom_read) files.emplace(qpack, options.io, budget);
}

void ExpertStore::Impl::check(int layer, std::span<const int32_t> ids, bool ascending) const {
  if (layer < 0 || layer >= layer_count || strides[layer] == 0)
    fail(ErrorKind::Input, "layer ", layer, " has no experts");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= expert_count)
      fail(ErrorKind::Input, "layer ", layer, " has no expert ", ids[i], ": it has ", expert_count);
    if (ascending && i > 0 && ids[i] <= ids[i - 1])
      fail(ErrorKind::Input, "expert ", ids[i], " after ", ids[i - 1], ": a request's ids must ascend");
  }
}

void ExpertStore::Impl::check_budget(uint64_t bytes) const {
  const uint64_t least = static_cast<uint64_t>(std::max(min_slots, 1)) * memory.slot_bytes();
  if (bytes < least) {
    fail(ErrorKind::Memory, "a pool of ", bytes, " bytes cannot hold ", std::max(min_slots, 1), " experts of ",
         memory.slot_bytes(), " bytes: it needs at least ", least);
  }
}

// Slots -----------------------------------------------------------------------------------------------

std::byte* ExpertStore::Impl::evict(int key) {
  ++stats.evictions;
  --resident[key / expert_count];
  ++moves[key / expert_count];
  if (host) host->left_device(key);
  experts[key].where = Where::OnDisk;
  experts[key].guess = false;
  experts[key].held = false;
  experts[key].as_read = false;
  return std::exchange(experts[key].slot, nullptr);
}

// The slot of the expert that is missed least, or null if all are in use. Held guesses go last.
Vacancy ExpertStore::Impl::evict_coldest() {
  if (holding) return {};
  if (!policy.empty()) {
    const int key = policy.coldest();
    policy.remove(key);
    return {evict(key), key};
  }
  const auto oldest = std::ranges::find(held, Where::InSlot, [&](int key) { return experts[key].where; });
  if (oldest == held.end()) return {};
  const int key = *oldest;
  held.erase(oldest);
  return {evict(key), key};
}

bool ExpertStore::Impl::can_grow() const { return memory.mapped_bytes() + memory.slot_bytes() <= budget; }

// While the pool is over its budget nothing is read, so that slots come out of use and can be given back.
bool ExpertStore::Impl::has_room() const {
  return can_grow() || (memory.has_free() && memory.mapped_bytes() <= budget);
}

bool ExpertStore::Impl::slot_obtainable() const {
  if (memory.mapped_bytes() > budget) return false;
  if (has_room()) return true;
  if (holding) return false;
  return !policy.empty() || std::ranges::any_of(held, [&](int key) { return experts[key].where == Where::InSlot; });
}

Vacancy ExpertStore::Impl::obtain_slot() {
  if (memory.mapped_bytes() > budget) return {};
  if (!memory.has_free() && can_grow()) memory.grow(budget - memory.mapped_bytes());
  return memory.has_free() ? Vacancy{memory.take()} : evict_coldest();
}

// Gives memory back until the pool is within its budget, or as far as slots in use permit. The experts that were in
// that memory move into the slots of colder ones.
void ExpertStore::Impl::trim() {
  if (memory.mapped_bytes() <= budget || holding) return;
  const size_t slot_bytes = memory.slot_bytes();
  size_t excess = (memory.mapped_bytes() - budget + slot_bytes - 1) / slot_bytes;

  std::map<const std::byte*, int> occupied;
  for (size_t key = 0; key < experts.size(); ++key)
    if (experts[key].slot) occupied.emplace(experts[key].slot, static_cast<int>(key));
  const auto in_use = [&](const auto& slot_and_key) {
    const Expert& expert = experts[slot_and_key.second];
    return expert.where == Where::Reading || expert.item >= 0;
  };

  std::vector<SlotMemory::Segment> segments = memory.segments();
  std::ranges::sort(segments, {}, &SlotMemory::Segment::slots);  // few large ones are better than many small ones
  std::vector<std::pair<SlotMemory::Segment, size_t>> cuts;      // and the slots to keep
  std::vector<int> homeless;
  for (const SlotMemory::Segment& segment : segments) {
    if (excess == 0) break;
    const size_t keep = memory.divisible() ? segment.slots - std::min(segment.slots, excess) : 0;
    const auto end = occupied.lower_bound(segment.base + segment.slots * slot_bytes);
    // Not even the rest of it may be in use: a GPU unmaps the whole segment for a moment.
    if (std::any_of(occupied.lower_bound(segment.base), end, in_use)) continue;
    const auto cut_from = occupied.lower_bound(segment.base + keep * slot_bytes);
    // A GPU sees what stays at another address, or through another buffer.
    for (auto it = occupied.lower_bound(segment.base); it != cut_from; ++it) ++moves[it->second / expert_count];
    for (auto it = cut_from; it != end; ++it) homeless.push_back(it->second);
    memory.withdraw(segment, keep);
    cuts.emplace_back(segment, keep);
    excess -= std::min(excess, segment.slots - keep);
  }

  for (const int key : homeless) {
    if (std::exchange(experts[key].held, false))
      std::erase(held, key);
    else
      policy.remove(key);
  }
  std::ranges::sort(homeless, [&](int a, int b) { return policy.colder(b, a); });
  for (const int key : homeless) {
    std::byte* slot = memory.take();
    if (!slot && !policy.empty() && policy.colder(policy.coldest(), key)) slot = evict_coldest().slot;
    if (!slot) {
      evict(key);
      continue;
    }
    const size_t bytes = strides[key / expert_count];
    if (heap)
      heap->copy(slot, experts[key].slot, bytes);
    else
      std::memcpy(slot, experts[key].slot, bytes);
    experts[key].slot = slot;
    ++moves[key / expert_count];
    policy.insert(key);
  }
  for (const auto& [segment, keep] : cuts) memory.cut(segment, keep);
}

// Makes the expert's slot available to others.
void ExpertStore::Impl::release(int key) {
  experts[key].item = -1;
  policy.insert(key);
}

// The same of an expert that was handed out.
void ExpertStore::Impl::take_back(int key) {
  if (!experts[key].as_read) return release(key);
  experts[key].item = -1;
  memory.give(evict(key));
}

// Reads -----------------------------------------------------------------------------------------------

// The turn of a layer has come. True if a new pass has begun with it.
bool ExpertStore::Impl::begin_layer(int layer, int tokens) {
  const bool new_pass = layer <= std::exchange(last_layer, layer);
  if (new_pass) policy.begin_pass(tokens);
  if (new_pass && host) host->policy.begin_pass(tokens);
  return new_pass;
}

// An expert that the policy does not hold was asked for.
void ExpertStore::Impl::count_use(int key) {
  policy.use(key);
  if (host) host->policy.use(key);
  if (std::exchange(experts[key].guess, false)) ++stats.guess_hits;
}

void ExpertStore::Impl::wake(size_t reads) {
  for (size_t i = 0; i < std::min(reads, threads.size()); ++i) work.notify_one();
}

bool ExpertStore::Request::Impl::has_waiting() {
  while (waiting < items.size() && items[waiting].step != Step::Waiting) ++waiting;
  return waiting < items.size();
}

// Reads that run far ahead of the computing would take the slots of the hot experts, since what was read waits in its
// slot. Beyond some reads they take only what the policy would give up for them, and else wait for slots to be
// released: but for the next expert in order when no slot is about to be.
bool ExpertStore::Impl::may_read_ahead(int key) const {
  const bool awaited = request->waiting == request->first && request->in_use.empty();
  return request->taken < kReadAhead * threads.size() || awaited || has_room() ||
         (!policy.empty() && policy.colder(policy.coldest(), key));
}

std::optional<Read> ExpertStore::Impl::begin_needed() {
  Item& item = request->items[request->waiting];
  if (!may_read_ahead(key_of(request->layer, item.expert))) return {};
  Vacancy to;
  try {
    to = obtain_slot();
  } catch (const std::exception& error) {
    request->error = Error(ErrorKind::Memory, error.what());
    ready.notify_all();
  }
  if (!to.slot) return {};
  item.step = Step::Reading;
  item.took = true;
  ++request->taken;
  return begin(key_of(request->layer, item.expert), false, to);
}

std::optional<Read> ExpertStore::Impl::begin_guess() {
  auto chosen = guesses.begin();
  if (!has_room()) {
    if (!slot_obtainable() || policy.empty()) return {};
    const int victim = policy.coldest();
    chosen = std::ranges::find_if(guesses, [&](int guess) { return policy.guess_may_replace(guess, victim); });
    if (chosen == guesses.end()) return {};
  }
  const int key = *chosen;
  Vacancy to;
  try {
    to = obtain_slot();
  } catch (const std::exception&) {
    return {};  // No memory. A guess is not worth an error: whoever needs the expert will hear of it.
  }
  guesses.erase(chosen);
  held.push_back(key);
  experts[key].guess = experts[key].held = true;
  ++stats.guesses;
  ++guesses_in_flight;
  return begin(key, true, to);
}

Read ExpertStore::Impl::begin(int key, bool guess, Vacancy to) {
  experts[key].where = Where::Reading;
  experts[key].slot = to.slot;
  ++reads_in_flight;
  Read read{.key = key, .guess = guess, .to = to};
  if (!host) return read;
  read.host = host->borrow(key);
  read.in_host = read.host != nullptr;
  if (!read.in_host) read.host = host->take();
  if (to.leaving >= 0 && host->wants(to.leaving)) read.kept = host->take();
  return read;
}

void ExpertStore::Impl::end(const Read& read, const std::optional<Error>& error) {
  Expert& expert = experts[read.key];
  --reads_in_flight;
  guesses_in_flight -= read.guess;
  if (read.kept && error)
    host->give(read.kept);
  else if (read.kept)
    host->keep(read.to.leaving, read.kept, experts[read.to.leaving].where == Where::InSlot);
  if (read.host && error && !read.in_host)
    host->give(read.host);
  else if (read.host)
    host->keep(read.key, read.host, !error);
  if (error) {
    memory.give(std::exchange(expert.slot, nullptr));
    if (expert.item >= 0 && !request->error) request->error = error;
    if (expert.held) std::erase(held, read.key);
    expert = Expert{.item = expert.item};
  } else {
    ++(read.in_host ? stats.host_hits : stats.reads);
    (read.in_host ? stats.host_bytes : stats.bytes_read) += strides[read.key / expert_count];
    expert.where = Where::InSlot;
    expert.as_read = user_orders;
    ++resident[read.key / expert_count];
    ++moves[read.key / expert_count];
    if (expert.item >= 0)
      request->items[expert.item].step = Step::Ready;
    else if (!expert.held)
      policy.insert(read.key);
  }
  trim();
  ready.notify_all();
}

std::optional<Error> ExpertStore::Impl::read_expert(const Read& read) const {
  const int layer = read.key / expert_count;
  const int expert = read.key % expert_count;
  std::byte* to = read.host ? read.host : read.to.slot;
  try {
    if (read.kept) heap->download(read.kept, read.to.slot, strides[read.to.leaving / expert_count]);
    if (!read.in_host) {
      if (custom_read)
        custom_read(layer, expert, to, strides[layer]);
      else
        files->read(layer, expert, to);
    }
    if (read.host) heap->upload(read.to.slot, read.host, strides[layer]);
    return {};
  } catch (const std::exception& error) {
    return Error(ErrorKind::Io, "cannot read expert " + std::to_string(expert) + " of layer " + std::to_string(layer) +
                                    " from " + paths[layer] + ": " + error.what());
  }
}

void ExpertStore::Impl::run_io() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    std::optional<Read> read;
    if (request && !request->error && request->has_waiting())
      read = begin_needed();
    else if (!guesses.empty() && guesses_in_flight < kGuessesInFlight && held.size() < kGuessesHeld)
      read = begin_guess();
    if (!read) {
      work.wait(lock);
      continue;
    }
    lock.unlock();
    const std::optional<Error> error = read_expert(*read);
    lock.lock();
    end(*read, error);
  }
}

// Reads in flight are completed.
void ExpertStore::Impl::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  work.notify_all();
  ready.notify_all();
  for (std::thread& thread : threads) thread.join();
}

// The open request ------------------------------------------------------------------------------------

// The turn of this layer has come, perhaps in a new pass: guesses for it, or of the pass before, that are not asked for
// now were wrong.
void ExpertStore::Impl::end_guesses(int layer, bool new_pass) {
  const auto is_over = [&](int key) { return new_pass || key / expert_count == layer; };
  std::erase_if(guesses, [&](int key) {
    if (!is_over(key)) return false;
    if (experts[key].where == Where::Guessed) experts[key].where = Where::OnDisk;
    return true;
  });
  std::erase_if(held, [&](int key) {
    if (!is_over(key)) return false;
    experts[key].held = false;
    if (experts[key].where == Where::InSlot && experts[key].item < 0) policy.insert(key);
    return true;
  });
}

void ExpertStore::Impl::release_handed_out(Request::Impl& open) {
  for (const int32_t i : open.in_use) {
    open.items[i].step = Step::Done;
    open.taken -= open.items[i].took;
    take_back(key_of(open.layer, open.items[i].expert));
  }
  trim();
  if (open.has_waiting())
    wake(open.in_use.size());
  else if (!guesses.empty())
    wake(kGuessesInFlight);
  open.in_use.clear();
}

std::vector<ReadyExpert> ExpertStore::Impl::take_ready(Request::Impl& open, bool in_order) {
  std::vector<ReadyExpert> result;
  for (size_t i = open.first; i < open.items.size(); ++i) {
    Item& item = open.items[i];
    if (item.step == Step::Ready) {
      item.step = Step::InUse;
      open.in_use.push_back(static_cast<int32_t>(i));
      Expert& expert = experts[key_of(open.layer, item.expert)];
      result.push_back({item.expert, expert.slot, &expert.as_read});
    } else if (in_order && item.step < Step::Ready) {
      break;
    }
  }
  while (open.first < open.items.size() && open.items[open.first].step > Step::Ready) ++open.first;
  return result;
}

// The next expert in order has no slot to be read into, since ready ones further on hold them all: the furthest gives
// way, and is read once more when its turn comes.
void ExpertStore::Impl::drop_furthest(Request::Impl& open) {
  size_t i = open.items.size() - 1;
  while (open.items[i].step != Step::Ready) --i;
  Item& item = open.items[i];
  if (std::exchange(item.hit, false)) {
    --stats.hits;
    ++stats.misses;
  }
  item.step = Step::Waiting;
  open.taken -= std::exchange(item.took, false);
  open.waiting = std::min(open.waiting, i);
  memory.give(evict(key_of(open.layer, item.expert)));
  trim();
  wake(1);
}

std::vector<ReadyExpert> ExpertStore::Impl::next(Request::Impl& open, bool in_order,
                                                 const std::function<void()>& finish) {
  std::unique_lock lock(mutex);
  if (!open.open) return {};
  if (!finish) release_handed_out(open);
  for (;;) {
    if (open.error) throw *open.error;
    std::vector<ReadyExpert> result = take_ready(open, in_order);
    if (!result.empty()) return result;
    if (open.first == open.items.size()) {
      if (!finish) close(open);
      return {};
    }
    // Reads that cannot begin: those that were handed out have what they lack.
    if (!open.in_use.empty() && open.has_waiting() &&
        (!slot_obtainable() || !may_read_ahead(key_of(open.layer, open.items[open.waiting].expert)))) {
      lock.unlock();
      finish();
      lock.lock();
      release_handed_out(open);
      continue;
    }
    if (stopping) fail(ErrorKind::Cancelled, "the expert store was closed during a request");
    // Reads begin in order, so with none in flight it is the next expert in order that has no slot.
    if (reads_in_flight == 0 && !slot_obtainable()) {
      drop_furthest(open);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    ready.wait(lock);
    stats.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
}

void ExpertStore::Impl::close(Request::Impl& open) {
  if (!std::exchange(open.open, false)) return;
  for (const Item& item : open.items) {
    const int key = key_of(open.layer, item.expert);
    if (item.step == Step::Ready) release(key);
    if (item.step == Step::InUse) take_back(key);
    experts[key].item = -1;
  }
  request = nullptr;
  trim();
  if (!guesses.empty()) wake(kGuessesInFlight);
}

ExpertStore::Request::Impl::~Impl() {
  if (!store) return;
  const std::lock_guard lock(store->mutex);
  store->close(*this);
}

ExpertStore::Request::Request(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExpertStore::Request::Request(Request&&) noexcept = default;
ExpertStore::Request& ExpertStore::Request::operator=(Request&&) noexcept = default;
ExpertStore::Request::~Request() = default;

std::vector<ReadyExpert> ExpertStore::Request::next(bool in_order, const std::function<void()>& finish) {
  return impl_->store->next(*impl_, in_order, finish);
}

// The store -------------------------------------------------------------------------------------------

ExpertStore::ExpertStore(const Qpack& qpack, const ExpertStoreOptions& options, int min_slots)
    : impl_(std::make_shared<Impl>(qpack, options, min_slots)) {
  try {
    for (int i = 0; i < options.io_threads; ++i) impl_->threads.emplace_back([impl = impl_.get()] { impl->run_io(); });
  } catch (...) {
    impl_->stop();
    throw;
  }
}

ExpertStore::~ExpertStore() { impl_->stop(); }

ExpertStore::Request ExpertStore::request(int layer, std::span<const int32_t> ids, int tokens) {
  Impl& store = *impl_;
  const std::lock_guard lock(store.mutex);
  store.check(layer, ids, true);
  if (store.request) fail(ErrorKind::Input, "a request for experts is open already: finish or destroy it first");

  const bool new_pass = store.begin_layer(layer, tokens);

  auto open = std::make_unique<Request::Impl>();
  open->layer = layer;
  open->items.reserve(ids.size());
  size_t to_read = 0;
  for (const int32_t id : ids) {
    const int key = store.key_of(layer, id);
    Expert& expert = store.experts[key];
    const bool hit = expert.where == Where::InSlot;
    if (hit && !expert.held) store.policy.remove(key);
    store.count_use(key);
    ++(hit ? store.stats.hits : store.stats.misses);
    expert.item = static_cast<int32_t>(open->items.size());
    if (expert.where == Where::Guessed) expert.where = Where::OnDisk;
    to_read += expert.where == Where::OnDisk;
    const Step step = hit ? Step::Ready : expert.where == Where::Reading ? Step::Reading : Step::Waiting;
    open->items.push_back({id, step, hit, false});
  }
  store.end_guesses(layer, new_pass);
  open->store = impl_;
  store.request = open.get();
  store.wake(to_read);
  return Request(std::move(open));
}

std::optional<ResidentLayer> ExpertStore::hold(int layer) {
  Impl& store = *impl_;
  const std::lock_guard lock(store.mutex);
  store.check(layer, {}, true);
  if (store.resident[layer] < store.expert_count) return {};
  store.holding = true;
  std::vector<const std::byte*>& table = store.tables[layer];
  if (table.empty() || store.table_moves[layer] != store.moves[layer]) {
    table.resize(store.expert_count);
    for (int e = 0; e < store.expert_count; ++e) table[e] = store.experts[store.key_of(layer, e)].slot;
    store.table_moves[layer] = store.moves[layer];
  }
  return ResidentLayer{table, store.moves[layer]};
}

void ExpertStore::used(int layer, std::span<const int32_t> ids, int tokens) {
  Impl& store = *impl_;
  const std::lock_guard lock(store.mutex);
  store.check(layer, ids, true);
  store.end_guesses(layer, store.begin_layer(layer, tokens));
  for (const int32_t id : ids) {
    const int key = store.key_of(layer, id);
    const bool evictable = store.policy.contains(key);
    if (evictable) store.policy.remove(key);
    store.count_use(key);
    ++store.stats.hits;
    if (evictable) store.policy.insert(key);
  }
}

void ExpertStore::release_held() {
  const std::lock_guard lock(impl_->mutex);
  if (!std::exchange(impl_->holding, false)) return;
  impl_->trim();
  impl_->wake(impl_->threads.size());
}

void ExpertStore::guess(int layer, std::span<const int32_t> ids) {
  Impl& store = *impl_;
  const std::lock_guard lock(store.mutex);
  store.check(layer, ids, false);
  for (const int32_t id : ids) {
    const int key = store.key_of(layer, id);
    if (store.experts[key].where != Where::OnDisk || store.experts[key].item >= 0) continue;
    store.experts[key].where = Where::Guessed;
    store.guesses.push_back(key);
  }
  store.wake(kGuessesInFlight);
}

void ExpertStore::drop_guesses() {
  const std::lock_guard lock(impl_->mutex);
  for (const int key : impl_->guesses) impl_->experts[key].where = Where::OnDisk;
  impl_->guesses.clear();
}

void ExpertStore::set_budget(uint64_t bytes) {
  const std::lock_guard lock(impl_->mutex);
  impl_->check_budget(bytes);
  impl_->budget = bytes;
  impl_->trim();
  impl_->wake(impl_->threads.size());
  impl_->ready.notify_all();  // next() may have to give up a slot
}

uint64_t ExpertStore::budget() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->budget;
}

uint64_t ExpertStore::resident_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->memory.mapped_bytes();
}

uint64_t ExpertStore::slot_bytes() const { return impl_->memory.slot_bytes(); }

bool ExpertStore::direct_io() const { return impl_->files && impl_->files->direct(); }

ExpertStats ExpertStore::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

}  // namespace swiftlet
