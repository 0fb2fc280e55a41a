// Snapshots on disk. A file holds a whole one, whatever it shares in memory:
//
//   header   64 bytes, see Header in snapshot_file.cpp: magic, version, the model's identity, sizes, hashes
//   tokens   i32, one a position
//   state    f32 conv and recurrent state of each DeltaNet layer, then of each attention layer keys, values (and for
//            int8 rows their scales) of all positions
//
// All little-endian. The hashes are XXH64: they find damage.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/snapshot.h"

namespace swiftlet {

// What a header says.
struct SnapshotFile {
  int64_t position = 0;
  uint64_t tokens_hash = 0;
  uint64_t bytes = 0;  // of the file
};

// Writes a new file beside `path`, and renames it when it is complete and on disk. Returns its size. Throws
// ErrorKind::Io, without leaving anything behind.
uint64_t write_snapshot(const std::string& path, uint64_t identity, const StateShape& shape, const Snapshot& snapshot);

// Reads and checks a header. Nothing if the file is intact but belongs to another model. Throws ErrorKind::Container
// for anything that is not a snapshot, is of another version or is damaged.
std::optional<SnapshotFile> check_snapshot(const std::string& path, uint64_t identity, const StateShape& shape);

// Moves `state` to a file's position, if the file holds just these tokens; its KV buffers already hold the rows before
// `known`. Throws ErrorKind::Container; what `state` holds then means nothing, except for those rows.
void read_snapshot(const std::string& path, uint64_t identity, const StateShape& shape, std::span<const int32_t> tokens,
                   ModelState& state, int64_t known);

}  // namespace swiftlet
