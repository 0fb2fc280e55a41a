#include "base/xxhash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace swiftlet {
namespace {

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87, kPrime2 = 0xc2b2ae3d27d4eb4f, kPrime3 = 0x165667b19e3779f9,
                   kPrime4 = 0x85ebca77c2b2ae63, kPrime5 = 0x27d4eb2f165667c5;
constexpr size_t kStripe = 32;

template <class T>
T load(const unsigned char* data) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

uint64_t round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

void eat_stripe(uint64_t lanes[4], const unsigned char* data) {
  for (int i = 0; i < 4; i++) lanes[i] = round(lanes[i], load<uint64_t>(data + i * 8));
}

}  // namespace

void Xxh64::update(const void* data, size_t bytes) {
  const unsigned char* from = static_cast<const unsigned char*>(data);
  const size_t held = total_ % kStripe;
  total_ += bytes;
  if (held) {
    const size_t more = std::min(bytes, kStripe - held);
    std::memcpy(tail_ + held, from, more);
    from += more;
    bytes -= more;
    if (held + more < kStripe) return;
    eat_stripe(lanes_, tail_);
  }
  for (; bytes >= kStripe; from += kStripe, bytes -= kStripe) eat_stripe(lanes_, from);
  if (bytes) std::memcpy(tail_, from, bytes);
}

uint64_t Xxh64::digest() const {
  uint64_t hash = kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
  }
  hash += total_;
  const unsigned char* from = tail_;
  size_t bytes = total_ % kStripe;
  for (; bytes >= 8; from += 8, bytes -= 8)
    hash = std::rotl(hash ^ round(0, load<uint64_t>(from)), 27) * kPrime1 + kPrime4;
  if (bytes >= 4) {
    hash = std::rotl(hash ^ load<uint32_t>(from) * kPrime1, 23) * kPrime2 + kPrime3;
    from += 4;
    bytes -= 4;
  }
  for (; bytes; from++, bytes--) hash = std::rotl(hash ^ *from * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

}  // namespace swiftlet
