#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "base/file.h"
#include "temp_folder.h"

using namespace swiftlet;

namespace {

std::string pattern(size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 2654435761u) >> 13);
  return text;
}

struct AlignedBuffer {
  explicit AlignedBuffer(size_t size) : bytes(static_cast<char*>(std::aligned_alloc(4096, size)), std::free) {}
  std::unique_ptr<char, decltype(&std::free)> bytes;
};

}  // namespace

TEST_CASE("file: reads are exact at any offset") {
  const TempFolder folder;
  const std::string text = pattern(10000);
  write_file(folder / "data", text);
  const File file(folder / "data");
  CHECK(file.size() == 10000);
  CHECK(file.path() == folder / "data");
  CHECK_FALSE(file.direct());
  for (uint64_t offset : {0, 1, 4095, 4096, 9999, 10000}) {
    std::string got(10000 - offset, '?');
    file.read_at(offset, got.data(), got.size());
    CHECK(got == text.substr(offset));
  }
  file.read_at(10000, nullptr, 0);
}

TEST_CASE("file: a read that does not fit says what was there") {
  const TempFolder folder;
  write_file(folder / "data", pattern(100));
  const File file(folder / "data");
  char byte;
  for (auto [offset, bytes] : {std::pair<uint64_t, size_t>{100, 1}, {101, 0}, {UINT64_MAX, 1}, {1, SIZE_MAX}}) {
    const std::string message = error_of(ErrorKind::Io, [&] { file.read_at(offset, &byte, bytes); });
    CHECK(lacks(message, {folder / "data", "at offset " + std::to_string(offset), "the file has 100 bytes"}) == "");
  }
}

TEST_CASE("file: truncated while open") {
  const TempFolder folder;
  write_file(folder / "data", pattern(16384));
  for (bool direct : {false, true}) {
    CAPTURE(direct);
    std::filesystem::resize_file(folder / "data", 16384);
    const File file(folder / "data", direct);
    AlignedBuffer buffer(16384);
    for (size_t left : {0, 1, 5000, 4096, 8704}) {
      std::filesystem::resize_file(folder / "data", left);
      const std::string message = error_of(ErrorKind::Io, [&] { file.read_at(0, buffer.bytes.get(), 16384); });
      CHECK(lacks(message, {folder / "data", "is shorter than when it was opened", "truncated",
                            "wanted 16384 bytes at offset 0, got " + std::to_string(left) + ";"}) == "");
    }
  }
}

TEST_CASE("file: direct reads give the same bytes, and a refusal is not an error") {
  const TempFolder folder;
  const std::string text = pattern(65536);
  write_file(folder / "data", text);
  const File file(folder / "data", true);
  AlignedBuffer buffer(65536);
  for (auto [offset, bytes] : {std::pair<uint64_t, size_t>{0, 65536}, {4096, 16384}, {61440, 4096}}) {
    file.read_at(offset, buffer.bytes.get(), bytes);
    CHECK(std::string_view(buffer.bytes.get(), bytes) == std::string_view(text).substr(offset, bytes));
  }
  if (file.direct()) {
    const auto read = [&](uint64_t offset, size_t shift, size_t bytes) {
      return error_of(ErrorKind::Io, [&] { file.read_at(offset, buffer.bytes.get() + shift, bytes); });
    };
    CHECK(lacks(read(512, 0, 4096), {"is not aligned to 4096"}) == "");
    CHECK(lacks(read(0, 512, 4096), {"is not aligned to 4096"}) == "");
    CHECK(lacks(read(0, 0, 512), {"is not aligned to 4096"}) == "");
  }
  // A file that is smaller than the unit of direct reads opens as well.
  write_file(folder / "small", "abc");
  CHECK(File(folder / "small", true).size() == 3);
  write_file(folder / "empty", "");
  CHECK(File(folder / "empty", true).size() == 0);
}

TEST_CASE("file: what is not a readable file is refused at once") {
  const TempFolder folder;
  const auto open_error = [](const std::string& path) {
    return error_of(ErrorKind::Container, [&] { File file(path); });
  };
  CHECK(lacks(open_error(folder / "nothing"), {(folder / "nothing")}) == "");
  CHECK(lacks(open_error(folder / "nothing"), {"No such file"}) == "");
  CHECK(lacks(open_error(folder.path()), {"is not a regular file"}) == "");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(lacks(open_error(folder / "pipe"), {"is not a regular file"}) == "");  // and does not wait for a writer
}

TEST_CASE("file: moving hands the descriptor over and closes the old one") {
  const TempFolder folder;
  write_file(folder / "a", "aaaa");
  write_file(folder / "b", "bb");
  const auto open_descriptors = [] {
    int count = 0;
    for (int fd = 0; fd < 256; ++fd) count += fcntl(fd, F_GETFD) >= 0;
    return count;
  };
  const int before = open_descriptors();
  {
    File a(folder / "a");
    File moved(std::move(a));
    char byte = 0;
    moved.read_at(3, &byte, 1);
    CHECK(byte == 'a');
    CHECK(moved.size() == 4);
    moved = File(folder / "b");
    CHECK(open_descriptors() == before + 1);
    moved.read_at(1, &byte, 1);
    CHECK(byte == 'b');
    CHECK(moved.path() == folder / "b");
    moved = File();
    CHECK(open_descriptors() == before);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("file: many threads read one file") {
  const TempFolder folder;
  const std::string text = pattern(1 << 20);
  write_file(folder / "data", text);
  const File file(folder / "data");
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::string got(3000, '\0');
      for (size_t offset = t * 1000; offset + got.size() <= text.size(); offset += 4000) {
        file.read_at(offset, got.data(), got.size());
        wrong[t] += text.compare(offset, got.size(), got) != 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("checked: sizes that do not fit are not computed") {
  CHECK(lies_within(0, 0, 0));
  CHECK(lies_within(3, 7, 10));
  CHECK_FALSE(lies_within(3, 8, 10));
  CHECK_FALSE(lies_within(11, 0, 10));
  CHECK_FALSE(lies_within(1, UINT64_MAX, 10));

  CHECK(checked_product(UINT64_MAX, 1) == UINT64_MAX);
  CHECK(checked_product(UINT64_MAX, 0) == 0);
  CHECK(checked_product(uint64_t(1) << 32, (uint64_t(1) << 32) - 1));
  CHECK_FALSE(checked_product(uint64_t(1) << 32, uint64_t(1) << 32));

  CHECK(tensor_bytes({}, DType::F32) == 4);
  CHECK(tensor_bytes({2, 3}, DType::BF16) == 12);
  CHECK(tensor_bytes({0, INT64_MAX}, DType::F64) == 0);
  CHECK_FALSE(tensor_bytes({-1}, DType::U8));
  CHECK_FALSE(tensor_bytes({int64_t(1) << 62, 4}, DType::U8));
  CHECK_FALSE(tensor_bytes({int64_t(1) << 62}, DType::F32));

  using Names = std::pair<std::string_view, std::string_view>;
  CHECK_FALSE(find_overlap({{8, 8, "b"}, {0, 8, "a"}, {4, 0, "empty"}}));
  CHECK(find_overlap({{7, 1, "b"}, {0, 8, "a"}}) == Names("a", "b"));
  CHECK(find_overlap({{0, UINT64_MAX, "all"}, {5, 1, "b"}}) == Names("all", "b"));
}
