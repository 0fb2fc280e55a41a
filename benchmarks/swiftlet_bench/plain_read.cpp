#include "plain_read.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "measure.h"

namespace swiftlet::bench {
namespace {

constexpr uint64_t kBufferBytes = uint64_t(256) << 20;
constexpr uint64_t kPiece = uint64_t(1) << 20;  // of a thread at a time
constexpr int kStreams[] = {1, 2, 4, 8};        // places that a thread reads by turns

volatile uint64_t sink;  // keeps the reads alive

// Reads a piece as S streams of equal length, a cache line of each by turns.
template <int S>
void read_piece(const std::byte* piece) {
  constexpr uint64_t kLine = 64, kStride = kPiece / S;
  uint64_t sums[kLine / 8] = {};
  for (uint64_t i = 0; i < kStride; i += kLine)
    for (int s = 0; s < S; ++s) {
      uint64_t words[kLine / 8];
      std::memcpy(words, piece + s * kStride + i, kLine);
      for (uint64_t j = 0; j < kLine / 8; ++j) sums[j] ^= words[j];
    }
  uint64_t sum = 0;
  for (const uint64_t s : sums) sum ^= s;
  sink = sum;
}

void read_piece(const std::byte* piece, int streams) {
  switch (streams) {
    case 1:
      return read_piece<1>(piece);
    case 2:
      return read_piece<2>(piece);
    case 4:
      return read_piece<4>(piece);
    default:
      return read_piece<8>(piece);
  }
}

}  // namespace

PlainRead::PlainRead(ThreadPool& pool) : pool_(pool), buffer_(kBufferBytes, /*huge_pages=*/true) {
  std::memset(buffer_.data(), 1, buffer_.bytes());  // pages that were never written are all the same one
  int best = streams_;
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round)
    for (const int streams : kStreams) {
      streams_ = streams;
      const double start = now();
      read(kBufferBytes);
      const double seconds = now() - start;
      if (seconds < least) least = seconds, best = streams;
    }
  streams_ = best;
}

uint64_t PlainRead::read(uint64_t bytes) {
  const auto pieces = int64_t(std::max<uint64_t>(1, (bytes + kPiece / 2) / kPiece));
  const uint64_t first = at_ / kPiece;
  pool_.parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      read_piece(buffer_.data() + (first + uint64_t(i)) * kPiece % kBufferBytes, streams_);
  });
  at_ = (at_ + uint64_t(pieces) * kPiece) % kBufferBytes;
  return uint64_t(pieces) * kPiece;
}

}  // namespace swiftlet::bench
