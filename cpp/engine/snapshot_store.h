// The snapshots of all conversations: which there are, which go when room is needed, and the folder that keeps them.
//
// A prompt is continued from the longest snapshot whose tokens it begins with. When the memory is used up, the one that
// was used least recently goes: to the folder, or for good. The folder in turn drops the least recently used file.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/snapshot.h"

namespace swiftlet {

// What a snapshot is for, which decides what it may push out.
enum class Keep {
  Turn,    // the end of a message that somebody will come back to: pushes out whatever is older
  Parked,  // the end of a conversation that had to make way: goes before the last turn of that conversation
  Passing  // a place in the middle: pushes out only its like, and goes when two later ones are there
};

struct SnapshotOptions {
  uint64_t memory = 0;    // bytes; 0: none
  std::string folder;     // made if it is not there; empty: none
  uint64_t disk = 0;      // bytes of the files in it that belong to this model
  uint64_t identity = 0;  // of the model
};

struct SnapshotStats {
  uint64_t memory_bytes = 0, disk_bytes = 0;
  uint64_t in_memory = 0, on_disk = 0;  // snapshots; one can be both
};

// Used by one thread at a time, except for stats() and take_warnings(). Nothing here fails because of a file: what
// cannot be read or written is a warning, and the snapshot is not there.
class SnapshotStore {
 public:
  // Looks through the folder. Throws ErrorKind::Input if it cannot be made or read.
  SnapshotStore(const StateShape& shape, SnapshotOptions options);

  // Tokens of the longest snapshot that the prompt continues, which is shorter than the prompt; 0: none. Counts as a
  // use: what comes next does not push it out.
  int64_t longest_prefix(std::span<const int32_t> prompt);

  // Moves `state` to that snapshot and returns its tokens. 0: none could be used; what `state` holds means nothing
  // then. `tokens` are those whose rows its KV buffers hold.
  int64_t restore(ModelState& state, std::span<const int32_t> tokens, std::span<const int32_t> prompt);

  // Keeps what `state` holds after `tokens`, in memory or else in the folder.
  void take(ModelState& state, std::span<const int32_t> tokens, Keep keep);

  // The same in two steps, for a state that passes `tokens` in the middle of a chunk: prepare() before the chunk, then
  // somebody fills place.memory->delta_nets, and commit() after it, or not if the chunk was cut off.
  struct Place {
    std::optional<Snapshot> memory;  // none: it is there already, or there is no room
    bool to_disk = false;            // there is none, but the folder may have some: take() it there
    Keep keep = Keep::Turn;
    uint64_t used = 0;
  };
  Place prepare(std::span<const int32_t> tokens, Keep keep);
  void commit(ModelState& state, Place place);

  // To be called before the rows of `state` from `position` on are written over: what snapshots have borrowed of them
  // is copied.
  void keep_rows(ModelState& state, int64_t position);

  void flush();  // writes everything that is only in memory to the folder
  void clear();  // forgets everything, in the folder too

  bool on_disk() const { return !options_.folder.empty(); }
  SnapshotStats stats() const;
  std::vector<std::string> take_warnings();

 private:
  struct Entry {
    uint64_t position = 0;
    uint64_t hash = 0;  // of the tokens
    uint64_t used = 0;  // larger: later
    Keep keep = Keep::Turn;
    std::optional<Snapshot> memory;
    std::string file;  // empty: none
    uint64_t file_bytes = 0;
  };
  using Entries = std::list<Entry>;

  void scan();
  std::vector<Entries::iterator> prefixes(std::span<const int32_t> tokens, size_t longest);
  std::shared_ptr<const KvRows> shared_rows(std::span<const int32_t> tokens);
  bool make_room(uint64_t bytes, uint64_t used, Keep keep);
  bool make_disk_room(uint64_t bytes, const Entry& entry);
  void write(Entry& entry, const Snapshot& snapshot);
  void drop_memory(Entries::iterator entry);
  void drop_file(Entry& entry);
  void remove(Entries::iterator entry);
  void supersede(std::span<const int32_t> tokens);
  void warn(const std::string& what);

  StateShape shape_;
  SnapshotOptions options_;
  Entries entries_;
  uint64_t clock_ = 0;
  std::atomic<uint64_t> memory_ = 0, disk_ = 0, in_memory_ = 0, on_disk_ = 0;
  std::mutex warning_;
  std::vector<std::string> warnings_;
};

}  // namespace swiftlet
