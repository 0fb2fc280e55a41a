// XXH64, the 64-bit hash of xxHash (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), as fast as memory. It finds
// damage, not malice.
#pragma once

#include <cstddef>
#include <cstdint>

namespace swiftlet {

class Xxh64 {
 public:
  void update(const void* data, size_t bytes);
  uint64_t digest() const;  // of everything so far; more may follow

 private:
  uint64_t lanes_[4] = {0x60ea27eeadc0b5d6, 0xc2b2ae3d27d4eb4f, 0, 0x61c8864e7a143579};  // for the seed 0
  uint64_t total_ = 0;
  unsigned char tail_[32];  // total_ % 32 bytes that wait for the rest of their stripe
};

inline uint64_t xxh64(const void* data, size_t bytes) {
  Xxh64 hash;
  hash.update(data, bytes);
  return hash.digest();
}

}  // namespace swiftlet
