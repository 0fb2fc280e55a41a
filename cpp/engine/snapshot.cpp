#include "engine/snapshot.h"

#include <algorithm>
#include <utility>

namespace swiftlet {
namespace {

constexpr uint64_t kPage = 16384;           // the largest page of the systems we know
constexpr size_t kPiece = size_t(1) << 20;  // bytes that pass through our hands at once

// Where buffer `i` begins in a copy of `count` rows.
uint64_t offset_in_rows(const StateShape& shape, size_t i, int64_t count) {
  uint64_t offset = 0;
  for (size_t j = 0; j < i; j++) offset += shape.kv_rows[j] * uint64_t(count);
  return offset;
}

// Calls f(segment) for the copies of a snapshot's rows, first rows first.
template <class F>
void for_each_segment(const KvRows* last, const F& f) {
  std::vector<const KvRows*> segments;
  for (; last; last = last->before.get()) segments.push_back(last);
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) f(**segment);
}

// Calls f(offset, bytes) for pieces of a stretch of a buffer.
template <class F>
void for_each_piece(uint64_t offset, uint64_t bytes, const F& f) {
  while (bytes) {
    const size_t piece = std::min<uint64_t>(bytes, kPiece);
    f(offset, piece);
    offset += piece;
    bytes -= piece;
  }
}

// A stretch of a buffer to a sink: at once where the CPU sees it.
void write_buffer(Buffer& buffer, uint64_t offset, uint64_t bytes, std::vector<std::byte>& piece, const Sink& sink) {
  for_each_piece(offset, bytes, [&](uint64_t at, size_t count) {
    if (std::byte* host = buffer.host()) return sink(host + at, count);
    piece.resize(kPiece);
    buffer.read(at, piece.data(), count);
    sink(piece.data(), count);
  });
}

}  // namespace

CountedMemory::CountedMemory(size_t bytes, std::atomic<uint64_t>& count)
    : memory_(bytes), counted_(counted(bytes)), count_(&count) {
  count += counted_;
}

CountedMemory::~CountedMemory() {
  if (count_) *count_ -= counted_;
}

CountedMemory::CountedMemory(CountedMemory&& other) noexcept { *this = std::move(other); }

CountedMemory& CountedMemory::operator=(CountedMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(counted_, other.counted_);
  std::swap(count_, other.count_);
  return *this;
}

uint64_t CountedMemory::counted(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void copy_rows(const StateShape& shape, Snapshot& snapshot, std::atomic<uint64_t>& count) {
  if (snapshot.rows_end() < snapshot.position()) {
    auto rows = std::make_shared<KvRows>();
    rows->before = snapshot.rows;
    rows->begin = snapshot.rows_end();
    rows->end = snapshot.position();
    const uint64_t height = uint64_t(rows->end - rows->begin);
    rows->bytes = CountedMemory(height * shape.row_bytes, count);
    const std::vector<Buffer*> buffers = kv_buffers(*snapshot.lender);
    std::byte* to = rows->bytes.data();
    for (size_t i = 0; i < buffers.size(); i++) {
      buffers[i]->read(uint64_t(rows->begin) * shape.kv_rows[i], to, height * shape.kv_rows[i]);
      to += height * shape.kv_rows[i];
    }
    snapshot.rows = std::move(rows);
  }
  snapshot.lender = nullptr;
}

void restore(const StateShape& shape, const Snapshot& snapshot, ModelState& state, int64_t known) {
  const std::byte* from = snapshot.delta_nets.data();
  const std::vector<Buffer*> layers = delta_net_buffers(state);
  for (size_t i = 0; i < layers.size(); i++) {
    layers[i]->write(0, from, shape.delta_nets[i]);
    from += shape.delta_nets[i];
  }
  const std::vector<Buffer*> buffers = kv_buffers(state);
  for_each_segment(snapshot.rows.get(), [&](const KvRows& rows) {
    const int64_t begin = std::max(rows.begin, known);
    if (begin >= rows.end) return;
    for (size_t i = 0; i < buffers.size(); i++) {
      const uint64_t row = shape.kv_rows[i];
      const uint64_t offset = offset_in_rows(shape, i, rows.end - rows.begin) + uint64_t(begin - rows.begin) * row;
      buffers[i]->write(uint64_t(begin) * row, rows.bytes.data() + offset, uint64_t(rows.end - begin) * row);
    }
  });
  const int64_t lent = std::max(snapshot.rows_end(), known);
  if (lent < snapshot.position() && snapshot.lender != &state) {
    std::vector<std::byte> piece;
    const std::vector<Buffer*> lenders = kv_buffers(*snapshot.lender);
    for (size_t i = 0; i < buffers.size(); i++) {
      uint64_t at = uint64_t(lent) * shape.kv_rows[i];
      write_buffer(*lenders[i], at, uint64_t(snapshot.position() - lent) * shape.kv_rows[i], piece,
                   [&](const std::byte* data, size_t bytes) {
                     buffers[i]->write(at, data, bytes);
                     at += bytes;
                   });
    }
  }
  state.position = snapshot.position();
}

void write_state(const StateShape& shape, const Snapshot& snapshot, const Sink& sink) {
  std::vector<std::byte> piece;
  if (snapshot.delta_nets.data()) {
    sink(snapshot.delta_nets.data(), shape.delta_bytes);
  } else if (snapshot.lender) {
    const std::vector<Buffer*> layers = delta_net_buffers(*snapshot.lender);
    for (size_t i = 0; i < layers.size(); i++) write_buffer(*layers[i], 0, shape.delta_nets[i], piece, sink);
  }
  const std::vector<Buffer*> lenders = snapshot.lender ? kv_buffers(*snapshot.lender) : std::vector<Buffer*>();
  for (size_t i = 0; i < shape.kv_rows.size(); i++) {
    const uint64_t row = shape.kv_rows[i];
    for_each_segment(snapshot.rows.get(), [&](const KvRows& rows) {
      sink(rows.bytes.data() + offset_in_rows(shape, i, rows.end - rows.begin), uint64_t(rows.end - rows.begin) * row);
    });
    const uint64_t lent = uint64_t(snapshot.position() - snapshot.rows_end()) * row;
    if (lent) write_buffer(*lenders[i], uint64_t(snapshot.rows_end()) * row, lent, piece, sink);
  }
}

void read_state(const StateShape& shape, ModelState& state, int64_t position, int64_t known, const Source& source) {
  std::vector<std::byte> piece(kPiece);
  const auto fill = [&](Buffer& buffer, uint64_t bytes, uint64_t skipped) {
    for_each_piece(0, bytes, [&](uint64_t at, size_t count) {
      source(piece.data(), count);
      const size_t skip = at < skipped ? std::min<uint64_t>(skipped - at, count) : 0;
      if (skip < count) buffer.write(at + skip, piece.data() + skip, count - skip);
    });
  };
  const std::vector<Buffer*> layers = delta_net_buffers(state), buffers = kv_buffers(state);
  for (size_t i = 0; i < layers.size(); i++) fill(*layers[i], shape.delta_nets[i], 0);
  for (size_t i = 0; i < buffers.size(); i++)
    fill(*buffers[i], uint64_t(position) * shape.kv_rows[i], uint64_t(std::min(known, position)) * shape.kv_rows[i]);
  state.position = position;
}

}  // namespace swiftlet
