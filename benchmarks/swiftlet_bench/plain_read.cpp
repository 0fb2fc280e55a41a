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

using Words [[gnu::vector_size(32), gnu::may_alias]] = uint64_t;

// Reads a piece as S streams of equal length, a cache line of each by turns.
template <int S>
[[gnu::always_inline]] inline void read_streams(const std::byte* piece) {
  constexpr uint64_t kLine = 64, kStride = kPiece / S;
  static_assert(kLine == 2 * sizeof(Words));
  Words sums[2] = {};
  for (uint64_t i = 0; i < kStride; i += kLine)
    for (int s = 0; s < S; ++s) {
      const auto* words = reinterpret_cast<const Words*>(piece + s * kStride + i);
      sums[0] ^= words[0];
      sums[1] ^= words[1];
    }
  const Words sum = sums[0] ^ sums[1];
  sink = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

[[gnu::always_inline]] inline void read_any(const std::byte* piece, int streams) {
  switch (streams) {
    case 1:
      return read_streams<1>(piece);
    case 2:
      return read_streams<2>(piece);
    case 4:
      return read_streams<4>(piece);
    default:
      return read_streams<8>(piece);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void read_avx2(const std::byte* piece, int streams) { read_any(piece, streams); }
#endif

void read_piece(const std::byte* piece, int streams) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return read_avx2(piece, streams);
#endif
  read_any(piece, streams);
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
