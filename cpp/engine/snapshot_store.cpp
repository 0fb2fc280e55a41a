#include "engine/snapshot_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/xxhash.h"
#include "engine/snapshot_file.h"

namespace fs = std::filesystem;

namespace swiftlet {
namespace {

constexpr const char* kSuffix = ".snapshot";
constexpr uint64_t kTick = 2;  // of the clock, so that something fits between two uses

uint64_t token_bytes(size_t tokens) { return tokens * sizeof(int32_t); }

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return size_t(std::ranges::mismatch(a, b).in1 - a.begin());
}

// The hash of the model is in the name, so that two models never write over each other's files.
std::string file_name(uint64_t identity, uint64_t hash, uint64_t position) {
  char name[64];
  std::snprintf(name, sizeof name, "%016llx-%016llx-%llu", static_cast<unsigned long long>(identity),
                static_cast<unsigned long long>(hash), static_cast<unsigned long long>(position));
  return std::string(name) + kSuffix;
}

}  // namespace

SnapshotStore::SnapshotStore(const StateShape& shape, SnapshotOptions options)
    : shape_(shape), options_(std::move(options)) {
  if (on_disk()) scan();
}

void SnapshotStore::scan() {
  const fs::path folder = options_.folder;
  std::error_code error;
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  fs::directory_iterator files(folder, error);
  if (error) fail(ErrorKind::Input, "the folder for states ", options_.folder, " cannot be used: ", error.message());

  std::multimap<fs::file_time_type, Entry> found;
  int foreign = 0;
  for (; files != fs::directory_iterator(); files.increment(error)) {
    const fs::directory_entry& item = *files;
    const std::string path = item.path().string();
    if (!item.is_regular_file(error) || item.is_symlink(error)) continue;
    const fs::file_time_type time = item.last_write_time(error);
    if (path.find(std::string(kSuffix) + ".tmp") != path.npos) {  // left by a process that was killed
      if (fs::file_time_type::clock::now() - time > std::chrono::hours(1)) fs::remove(item.path(), error);
      continue;
    }
    if (!path.ends_with(kSuffix)) continue;
    try {
      const std::optional<SnapshotFile> file = check_snapshot(path, options_.identity, shape_);
      if (!file) {
        foreign++;
        continue;
      }
      Entry entry;
      entry.position = uint64_t(file->position);
      entry.hash = file->tokens_hash;
      entry.file = path;
      entry.file_bytes = file->bytes;
      found.emplace(time, std::move(entry));
    } catch (const Error& refused) {
      warn(std::string(refused.what()) + "; it is left alone and not used: delete it");
    }
  }
  if (foreign)
    warn(std::to_string(foreign) + " snapshot(s) in " + options_.folder +
         " belong to another model, another kv type or another kind of processor, and are not used");
  for (auto& [time, entry] : found) {
    entry.used = clock_ += kTick;
    disk_ += entry.file_bytes;
    on_disk_++;
    entries_.push_back(std::move(entry));
  }
}

// Those whose tokens are the first of `tokens`, at most `longest` of them; shortest first.
std::vector<SnapshotStore::Entries::iterator> SnapshotStore::prefixes(std::span<const int32_t> tokens, size_t longest) {
  std::vector<Entries::iterator> candidates, found;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
    if (entry->position <= longest) candidates.push_back(entry);
  std::ranges::sort(candidates, {}, [](const auto& entry) { return entry->position; });
  Xxh64 hash;
  size_t hashed = 0;
  for (const auto& entry : candidates) {
    hash.update(tokens.data() + hashed, token_bytes(entry->position - hashed));
    hashed = entry->position;
    if (hash.digest() != entry->hash) continue;
    if (entry->memory && !std::ranges::equal(entry->memory->tokens, tokens.first(entry->position))) continue;
    found.push_back(entry);
  }
  return found;
}

int64_t SnapshotStore::longest_prefix(std::span<const int32_t> prompt) {
  const auto found = prefixes(prompt, prompt.size() - 1);
  if (found.empty()) return 0;
  found.back()->used = clock_ += kTick;
  return int64_t(found.back()->position);
}

int64_t SnapshotStore::restore(ModelState& state, std::span<const int32_t> tokens, std::span<const int32_t> prompt) {
  const int64_t known = int64_t(common_prefix(tokens, prompt));
  keep_rows(state, known);
  for (;;) {
    const auto found = prefixes(prompt, prompt.size() - 1);
    if (found.empty()) return 0;
    const auto entry = found.back();
    try {
      if (entry->memory)
        swiftlet::restore(shape_, *entry->memory, state, known);
      else
        read_snapshot(entry->file, options_.identity, shape_, prompt.first(entry->position), state, known);
      if (!entry->file.empty()) {
        std::error_code ignored;  // the time of the file tells the next process which was used last
        fs::last_write_time(entry->file, fs::file_time_type::clock::now(), ignored);
      }
      return int64_t(entry->position);
    } catch (const Error& error) {
      std::error_code ignored;
      if (fs::exists(entry->file, ignored)) warn(std::string(error.what()) + "; it is not used: delete it");
      disk_ -= entry->file_bytes;
      on_disk_--;
      entries_.erase(entry);
    }
  }
}

SnapshotStore::Place SnapshotStore::prepare(std::span<const int32_t> tokens, Keep keep) {
  Place place;
  place.keep = keep;
  const auto before = prefixes(tokens, tokens.size());
  if (!before.empty() && before.back()->position == tokens.size()) {
    if (keep == Keep::Turn) {
      before.back()->keep = keep;
      before.back()->used = clock_ += kTick;
    }
    return place;
  }
  place.used = keep == Keep::Parked && !before.empty() ? before.back()->used - 1 : clock_ += kTick;
  try {
    if (make_room(CountedMemory::counted(shape_.delta_bytes) + token_bytes(tokens.size()), place.used, keep)) {
      Snapshot snapshot;
      snapshot.tokens.assign(tokens.begin(), tokens.end());
      snapshot.delta_nets = CountedMemory(shape_.delta_bytes, memory_);
      place.memory = std::move(snapshot);
    } else {
      place.to_disk = on_disk() && keep != Keep::Passing;
    }
  } catch (const Error& error) {
    warn(error.what());
  }
  return place;
}

void SnapshotStore::commit(ModelState& state, Place place) {
  Snapshot& snapshot = *place.memory;
  Entry entry;
  entry.position = snapshot.tokens.size();
  entry.hash = xxh64(snapshot.tokens.data(), token_bytes(snapshot.tokens.size()));
  entry.keep = place.keep;
  entry.used = place.used;
  snapshot.rows = shared_rows(snapshot.tokens);
  snapshot.lender = &state;
  entry.memory = std::move(snapshot);
  memory_ += token_bytes(entry.position);
  in_memory_++;
  entries_.push_back(std::move(entry));
  supersede(entries_.back().memory->tokens);
}

void SnapshotStore::take(ModelState& state, std::span<const int32_t> tokens, Keep keep) {
  Place place = prepare(tokens, keep);
  if (place.memory) {
    std::byte* to = place.memory->delta_nets.data();
    const std::vector<Buffer*> layers = delta_net_buffers(state);
    for (size_t i = 0; i < layers.size(); i++) {
      layers[i]->read(0, to, shape_.delta_nets[i]);
      to += shape_.delta_nets[i];
    }
    commit(state, std::move(place));
  } else if (place.to_disk) {
    Snapshot snapshot;
    snapshot.tokens.assign(tokens.begin(), tokens.end());
    snapshot.lender = &state;
    Entry entry;
    entry.position = tokens.size();
    entry.hash = xxh64(tokens.data(), token_bytes(tokens.size()));
    entry.keep = keep;
    entry.used = place.used;
    write(entry, snapshot);
    if (!entry.file.empty()) entries_.push_back(std::move(entry));
  }
}

// The copies of rows that snapshots of the same tokens have already.
std::shared_ptr<const KvRows> SnapshotStore::shared_rows(std::span<const int32_t> tokens) {
  std::shared_ptr<const KvRows> rows;
  for (const auto& entry : prefixes(tokens, tokens.size()))
    if (entry->memory && entry->memory->rows_end() > (rows ? rows->end : 0)) rows = entry->memory->rows;
  return rows;
}

// Drops the places in the middle that later ones have made useless, all but the last.
void SnapshotStore::supersede(std::span<const int32_t> tokens) {
  auto before = prefixes(tokens, tokens.size() - 1);
  std::erase_if(before, [](const auto& entry) { return entry->keep == Keep::Turn; });
  if (!before.empty()) before.pop_back();
  for (const auto& entry : before) remove(entry);
}

void SnapshotStore::keep_rows(ModelState& state, int64_t position) {
  for (;;) {
    auto borrower = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
      if (entry->memory && entry->memory->lender == &state && entry->memory->position() > position &&
          (borrower == entries_.end() || entry->position < borrower->position))
        borrower = entry;
    if (borrower == entries_.end()) return;
    Snapshot& snapshot = *borrower->memory;
    snapshot.rows = shared_rows(snapshot.tokens);
    const uint64_t bytes = uint64_t(snapshot.position() - snapshot.rows_end()) * shape_.row_bytes;
    try {
      if (make_room(CountedMemory::counted(bytes), borrower->used, borrower->keep)) {
        copy_rows(shape_, snapshot, memory_);
        continue;
      }
    } catch (const Error& error) {
      warn(error.what());
    }
    drop_memory(borrower);
  }
}

// Drops snapshots that were used earlier from memory until there is room for `bytes` more.
bool SnapshotStore::make_room(uint64_t bytes, uint64_t used, Keep keep) {
  while (memory_ + bytes > options_.memory) {
    auto victim = entries_.end();
    for (auto other = entries_.begin(); other != entries_.end(); ++other)
      if (other->memory && other->used < used && (keep != Keep::Passing || other->keep == Keep::Passing) &&
          (victim == entries_.end() || other->used < victim->used))
        victim = other;
    if (victim == entries_.end()) return false;
    drop_memory(victim);
  }
  return true;
}

bool SnapshotStore::make_disk_room(uint64_t bytes, const Entry& entry) {
  while (disk_ + bytes > options_.disk) {
    auto victim = entries_.end();
    for (auto other = entries_.begin(); other != entries_.end(); ++other)
      if (!other->file.empty() && other->used < entry.used && (victim == entries_.end() || other->used < victim->used))
        victim = other;
    if (victim == entries_.end()) return false;
    drop_file(*victim);
    if (!victim->memory) entries_.erase(victim);
  }
  return true;
}

// Writes a snapshot to the folder, if it may have that much. A failure is a warning.
void SnapshotStore::write(Entry& entry, const Snapshot& snapshot) {
  const uint64_t bytes = shape_.delta_bytes + entry.position * shape_.row_bytes + token_bytes(entry.position) + 64;
  if (!entry.file.empty() || !make_disk_room(bytes, entry)) return;
  const std::string path =
      (fs::path(options_.folder) / file_name(options_.identity, entry.hash, entry.position)).string();
  try {
    entry.file_bytes = write_snapshot(path, options_.identity, shape_, snapshot);
    entry.file = path;
    disk_ += entry.file_bytes;
    on_disk_++;
  } catch (const Error& error) {
    warn(std::string(error.what()) + "; the conversation's state is not kept on disk");
  }
}

// Takes an entry out of memory, to the folder if there is one; it is gone if that has no room.
void SnapshotStore::drop_memory(Entries::iterator entry) {
  if (on_disk() && entry->keep != Keep::Passing) write(*entry, *entry->memory);
  memory_ -= token_bytes(entry->memory->tokens.size());
  in_memory_--;
  entry->memory.reset();
  if (entry->file.empty()) entries_.erase(entry);
}

void SnapshotStore::drop_file(Entry& entry) {
  std::error_code ignored;
  fs::remove(entry.file, ignored);
  entry.file.clear();
  disk_ -= std::exchange(entry.file_bytes, 0);
  on_disk_--;
}

void SnapshotStore::remove(Entries::iterator entry) {
  if (!entry->file.empty()) drop_file(*entry);
  if (entry->memory) {
    memory_ -= token_bytes(entry->memory->tokens.size());
    in_memory_--;
  }
  entries_.erase(entry);
}

void SnapshotStore::flush() {
  if (!on_disk()) return;
  std::vector<Entry*> entries;
  for (Entry& entry : entries_)
    if (entry.memory) entries.push_back(&entry);
  // Latest first: none of them pushes out a later one.
  std::ranges::sort(entries, std::greater(), &Entry::used);
  for (Entry* entry : entries) write(*entry, *entry->memory);
}

void SnapshotStore::clear() {
  while (!entries_.empty()) remove(entries_.begin());
}

SnapshotStats SnapshotStore::stats() const { return {memory_, disk_, in_memory_, on_disk_}; }

void SnapshotStore::warn(const std::string& what) {
  const std::lock_guard lock(warning_);
  if (warnings_.size() < 100 && (warnings_.empty() || warnings_.back() != what)) warnings_.push_back(what);
}

std::vector<std::string> SnapshotStore::take_warnings() {
  const std::lock_guard lock(warning_);
  return std::exchange(warnings_, {});
}

}  // namespace swiftlet
