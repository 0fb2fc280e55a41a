// A read-only file: positional reads that are complete or an error, safe from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace swiftlet {

class File {
 public:
  File() = default;
  // Opens for reading. `direct` asks for reads that bypass the page cache (O_DIRECT, F_NOCACHE); where the file
  // system refuses, direct() is false afterwards and reads are buffered.
  explicit File(const std::string& path, bool direct = false);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Reads exactly `bytes` at `offset`, or throws ErrorKind::Io naming the path, the offset and what was missing, also
  // if the file was written to since it was opened. With direct(), offset, bytes and dst must be multiples of 4,096.
  void read_at(uint64_t offset, void* dst, size_t bytes) const;

  uint64_t size() const { return size_; }
  bool direct() const { return direct_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  int64_t changed_ = 0;  // when it was last written to, in nanoseconds, as it was at opening
  bool direct_ = false;
};

}  // namespace swiftlet
