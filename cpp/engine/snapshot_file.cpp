#include "engine/snapshot_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/xxhash.h"

namespace swiftlet {
namespace {

constexpr char kMagic[8] = {'S', 'W', 'I', 'F', 'T', 'S', 'N', 'P'};
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;  // 0
  uint64_t identity;
  uint64_t position;
  uint64_t tokens_hash;
  uint64_t state_bytes;
  uint64_t state_hash;
  uint64_t header_hash;  // of all before
};
static_assert(sizeof(Header) == 64);

uint64_t hash_of(const Header& header) { return xxh64(&header, offsetof(Header, header_hash)); }

uint64_t tokens_bytes(uint64_t position) { return position * sizeof(int32_t); }

// A file that is being written; removed again unless it is finished.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), temporary_(path + ".tmp" + std::to_string(getpid())) {
    unlink(temporary_.c_str());  // of a process with our number that died
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd_ < 0) refuse("created");
  }
  ~NewFile() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;

  // Takes the room now: a disk that is full says so before anything is written.
  void reserve(uint64_t bytes) {
#ifdef __linux__
    int error;
    do error = posix_fallocate(fd_, 0, off_t(bytes));
    while (error == EINTR);
    if (error) {
      errno = error;
      refuse("written");
    }
#else
    (void)bytes;
#endif
  }

  void write_at(uint64_t offset, const void* data, size_t bytes) {
    const char* from = static_cast<const char*>(data);
    while (bytes) {
      const ssize_t written = pwrite(fd_, from, std::min(bytes, size_t(1) << 30), off_t(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) refuse("written");
      from += written;
      offset += uint64_t(written);
      bytes -= size_t(written);
    }
  }

  void finish() {
    if (fsync(fd_) != 0) refuse("written");
    if (rename(temporary_.c_str(), path_.c_str()) != 0) refuse("renamed");
    close(fd_);
    fd_ = -1;
  }

 private:
  [[noreturn]] void refuse(const char* what) {
    fail(ErrorKind::Io, path_, " cannot be ", what, ": ", std::system_category().message(errno));
  }

  std::string path_, temporary_;
  int fd_ = -1;
};

std::optional<Header> read_header(const File& file, uint64_t identity, const StateShape& shape) {
  Header header;
  if (file.size() < sizeof header) fail(ErrorKind::Container, file.path(), " is too short for a snapshot");
  file.read_at(0, &header, sizeof header);
  if (!std::equal(kMagic, kMagic + sizeof kMagic, header.magic))
    fail(ErrorKind::Container, file.path(), " is not a snapshot of Swiftlet");
  if (header.version != kVersion)
    fail(ErrorKind::Container, file.path(), " is of version ", header.version, ", but this Swiftlet reads version ",
         kVersion);
  if (header.header_hash != hash_of(header))
    fail(ErrorKind::Container, file.path(), " is damaged: its header does not have the hash that it should");
  if (header.identity != identity) return std::nullopt;
  const uint64_t most = file.size() / (sizeof(int32_t) + shape.row_bytes);  // so that no product below wraps
  if (header.position < 1 || header.position > most ||
      header.state_bytes != shape.delta_bytes + header.position * shape.row_bytes ||
      file.size() != sizeof header + tokens_bytes(header.position) + header.state_bytes)
    fail(ErrorKind::Container, file.path(), " is damaged: it has ", file.size(), " bytes, and not what ",
         header.position, " tokens need");
  return header;
}

}  // namespace

uint64_t write_snapshot(const std::string& path, uint64_t identity, const StateShape& shape, const Snapshot& snapshot) {
  Header header = {};
  std::copy_n(kMagic, sizeof kMagic, header.magic);
  header.version = kVersion;
  header.identity = identity;
  header.position = uint64_t(snapshot.position());
  header.tokens_hash = xxh64(snapshot.tokens.data(), tokens_bytes(header.position));
  header.state_bytes = shape.delta_bytes + header.position * shape.row_bytes;
  const uint64_t size = sizeof header + tokens_bytes(header.position) + header.state_bytes;

  NewFile file(path);
  file.reserve(size);
  uint64_t at = sizeof header;
  file.write_at(at, snapshot.tokens.data(), tokens_bytes(header.position));
  at += tokens_bytes(header.position);
  Xxh64 hash;
  write_state(shape, snapshot, [&](const std::byte* data, size_t bytes) {
    hash.update(data, bytes);
    file.write_at(at, data, bytes);
    at += bytes;
  });
  header.state_hash = hash.digest();
  header.header_hash = hash_of(header);
  file.write_at(0, &header, sizeof header);
  file.finish();
  return size;
}

std::optional<SnapshotFile> check_snapshot(const std::string& path, uint64_t identity, const StateShape& shape) {
  const File file(path);
  const std::optional<Header> header = read_header(file, identity, shape);
  if (!header) return std::nullopt;
  return SnapshotFile{int64_t(header->position), header->tokens_hash, file.size()};
}

void read_snapshot(const std::string& path, uint64_t identity, const StateShape& shape, std::span<const int32_t> tokens,
                   ModelState& state, int64_t known) {
  const File file(path);
  const std::optional<Header> header = read_header(file, identity, shape);
  if (!header) fail(ErrorKind::Container, path, " belongs to another model");
  std::vector<int32_t> stored(std::min<uint64_t>(header->position, tokens.size()));
  file.read_at(sizeof *header, stored.data(), tokens_bytes(stored.size()));
  if (header->position != tokens.size() || !std::ranges::equal(stored, tokens))
    fail(ErrorKind::Container, path, " is damaged: it holds other tokens than it should");
  uint64_t at = sizeof *header + tokens_bytes(header->position);
  Xxh64 hash;
  read_state(shape, state, int64_t(header->position), known, [&](std::byte* data, size_t bytes) {
    file.read_at(at, data, bytes);
    hash.update(data, bytes);
    at += bytes;
  });
  if (hash.digest() != header->state_hash)
    fail(ErrorKind::Container, path, " is damaged: its state does not have the hash that it should");
}

}  // namespace swiftlet
