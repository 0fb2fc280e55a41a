// The state of a conversation at one position, out of the backend's buffers: DeltaNet states cannot be cut back, so
// whoever wants to return to a position has to keep a copy of them.
//
// KV rows are only ever appended, so they are not copied while the session that computed them still holds them: it
// lends them. Snapshots of one conversation share the copies of those that it no longer holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "model/state.h"

namespace swiftlet {

// Memory whose bytes (whole pages) are added to a count while it lives.
class CountedMemory {
 public:
  CountedMemory() = default;
  CountedMemory(size_t bytes, std::atomic<uint64_t>& count);
  ~CountedMemory();
  CountedMemory(CountedMemory&& other) noexcept;
  CountedMemory& operator=(CountedMemory&& other) noexcept;

  std::byte* data() const { return memory_.data(); }
  static uint64_t counted(uint64_t bytes);  // what a request for so many bytes counts as

 private:
  PageMemory memory_;
  uint64_t counted_ = 0;
  std::atomic<uint64_t>* count_ = nullptr;
};

// Rows begin .. end - 1 of all KV buffers, one buffer after the other.
struct KvRows {
  std::shared_ptr<const KvRows> before;  // rows 0 .. begin - 1; null if begin is 0
  int64_t begin = 0, end = 0;
  CountedMemory bytes;
};

struct Snapshot {
  std::vector<int32_t> tokens;
  CountedMemory delta_nets;            // of all DeltaNet layers; empty: the lender's
  std::shared_ptr<const KvRows> rows;  // rows 0 .. rows->end - 1; null if there are none
  ModelState* lender = nullptr;        // has the other rows; null if there are none

  int64_t position() const { return int64_t(tokens.size()); }
  int64_t rows_end() const { return rows ? rows->end : 0; }
};

// Copies rows from..position - 1 of the lender, which may go its way afterwards.
void copy_rows(const StateShape& shape, Snapshot& snapshot, std::atomic<uint64_t>& count);

// Puts a snapshot into a state whose KV buffers already hold the rows before `known`.
void restore(const StateShape& shape, const Snapshot& snapshot, ModelState& state, int64_t known);

// The bytes of a state in the order of a file: DeltaNet states, then rows 0 .. position - 1 of each KV buffer.
// Give them to a function, or take them from one, a piece at a time.
using Sink = std::function<void(const std::byte* data, size_t bytes)>;
using Source = std::function<void(std::byte* data, size_t bytes)>;
void write_state(const StateShape& shape, const Snapshot& snapshot, const Sink& sink);
void read_state(const StateShape& shape, ModelState& state, int64_t position, int64_t known, const Source& source);

}  // namespace swiftlet
