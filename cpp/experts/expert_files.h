// The files of packed experts, opened once and kept open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/file.h"
#include "container/qpack.h"
#include "experts/expert_store.h"

namespace swiftlet {

class ExpertFiles {
 public:
  // IoMode::Auto reads a few experts both ways (less than 0.1 s) and bypasses the page cache, unless buffered reads are
  // clearly faster (most of the files are cached) and memory for the cache is left beside a pool of `pool_bytes`.
  // Throws ErrorKind::Container if a file is missing or too short.
  ExpertFiles(const Qpack& qpack, IoMode mode, uint64_t pool_bytes);

  // Reads one expert: the stride of its layer. dst is aligned to 4,096. Throws ErrorKind::Io.
  void read(int layer, int expert, std::byte* dst) const;

  bool direct() const { return direct_; }

 private:
  std::vector<uint64_t> strides_;  // by layer
  std::vector<File> files_;        // by layer; none is open where the stride is 0
  bool direct_ = false;
};

}  // namespace swiftlet
