#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace swiftlet {
namespace {

constexpr uint64_t kAlignment = 4096;         // what direct reads ask of offset, length and address
constexpr size_t kMaxRead = size_t(1) << 30;  // some systems refuse a read of 2 GiB or more

ssize_t pread_retrying(int fd, void* dst, size_t bytes, uint64_t offset) {
  ssize_t got;
  do got = pread(fd, dst, std::min(bytes, kMaxRead), static_cast<off_t>(offset));
  while (got < 0 && errno == EINTR);
  return got;
}

int64_t last_change(const struct stat& info) {
#ifdef __APPLE__
  const timespec& time = info.st_mtimespec;
#else
  const timespec& time = info.st_mtim;
#endif
  return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

// Turns the page cache off for this descriptor. False where the file system cannot.
bool bypass_page_cache(int fd) {
#if defined(F_NOCACHE)
  return fcntl(fd, F_NOCACHE, 1) == 0;
#elif defined(O_DIRECT)
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) return false;
  // Some file systems accept the flag and then refuse the reads.
  alignas(kAlignment) std::byte probe[kAlignment];
  if (pread_retrying(fd, probe, sizeof probe, 0) >= 0) return true;
  fcntl(fd, F_SETFL, flags);
  return false;
#else
  return (void)fd, false;
#endif
}

}  // namespace

File::File(const std::string& path, bool direct) : path_(path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer. Regular files ignore it.
  int fd;
  do fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) fail(ErrorKind::Container, "cannot open ", path, ": ", std::system_category().message(errno));

  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    fail(ErrorKind::Container, path, " is not a regular file");
  }
  fd_ = fd;
  size_ = static_cast<uint64_t>(info.st_size);
  changed_ = last_change(info);
  direct_ = direct && bypass_page_cache(fd);
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

File::File(File&& other) noexcept { *this = std::move(other); }

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(changed_, other.changed_);
  std::swap(direct_, other.direct_);
  return *this;
}

void File::read_at(uint64_t offset, void* dst, size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset)
    fail(ErrorKind::Io, path_, ": cannot read ", bytes, " bytes at offset ", offset, ": the file has ", size_,
         " bytes");
  if (direct_ && (offset | bytes | reinterpret_cast<uintptr_t>(dst)) % kAlignment != 0)
    fail(ErrorKind::Io, path_, ": a direct read of ", bytes, " bytes at offset ", offset, " is not aligned to ",
         kAlignment);

  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread_retrying(fd_, static_cast<std::byte*>(dst) + done, bytes - done, offset + done);
    if (got < 0)
      fail(ErrorKind::Io, path_, ": reading ", bytes, " bytes at offset ", offset, " failed after ", done, ": ",
           std::system_category().message(errno));
    done += static_cast<size_t>(got);
    // A direct read that stops off a sector boundary has met the end; asking for the rest would be EINVAL.
    if (got == 0 || (direct_ && done % 512 != 0)) break;
  }
  if (done < bytes)
    fail(ErrorKind::Io, path_, " is shorter than when it was opened: wanted ", bytes, " bytes at offset ", offset,
         ", got ", done, "; it was truncated or replaced");
  if (struct stat info; fstat(fd_, &info) != 0 || last_change(info) != changed_)
    fail(ErrorKind::Io, path_, " was written to since it was opened: load the model again");
}

}  // namespace swiftlet
