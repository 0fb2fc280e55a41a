#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "container/json.h"
#include "container/safetensors.h"
#include "temp_folder.h"

using namespace swiftlet;

namespace {

std::string with_length(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(uint64_t(header.size()) >> (8 * i));
  return file + header + data;
}

// Whatever was accepted must be inside the file and readable.
void check_bounds(const SafetensorsFile& file, uint64_t size) {
  for (const auto& [name, tensor] : file.tensors()) {
    REQUIRE(tensor.offset <= size);
    REQUIRE(tensor.bytes <= size - tensor.offset);
    std::vector<char> bytes(tensor.bytes);
    file.read(tensor, 0, bytes.data(), bytes.size());
  }
}

// Opening gives a Container error that names the file, or tensors that are in bounds. True if it was accepted.
bool survives(const std::string& path, const std::string& bytes) {
  write_file(path, bytes);
  try {
    check_bounds(SafetensorsFile(path), bytes.size());
    return true;
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::Container);
    REQUIRE(lacks(error.what(), {path}) == "");
    return false;
  }
}

const std::string kHeader =
    R"({"__metadata__":{"format":"mlx"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
    R"("b":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})";
const std::string kData = "0123456789abcdef";

}  // namespace

TEST_CASE("safetensors: names, dtypes, shapes and bytes") {
  const TempFolder folder;
  const std::string header =
      R"({"scalar":{"dtype":"F32","shape":[],"data_offsets":[12,16]},
          "__metadata__":{"format":"mlx"},
          "a.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12],"extra":null},
          "gr\u00fc\u00dfe/..":{"dtype":"U8","shape":[1],"data_offsets":[20,21]},
          "empty":{"dtype":"I64","shape":[4,0,9],"data_offsets":[3,3]}}   )";
  write_file(folder / "m.safetensors", with_length(header, "0123456789abcdef....z"));
  const SafetensorsFile file(folder / "m.safetensors");
  CHECK(file.path() == folder / "m.safetensors");
  REQUIRE(file.tensors().size() == 4);

  const TensorInfo* a = file.find("a.weight");
  REQUIRE(a);
  CHECK(a->name == "a.weight");
  CHECK(a->dtype == DType::BF16);
  CHECK(a->shape == std::vector<int64_t>{2, 3});
  CHECK(a->offset == 8 + header.size());
  CHECK(a->bytes == 12);
  char bytes[5] = {};
  file.read(*a, 8, bytes, 4);
  CHECK(std::string(bytes) == "89ab");

  REQUIRE(file.find("scalar"));
  CHECK(file.find("scalar")->shape.empty());
  CHECK(file.find("scalar")->bytes == 4);
  REQUIRE(file.find("empty"));
  CHECK(file.find("empty")->bytes == 0);
  REQUIRE(file.find("gr\u00fc\u00dfe/.."));
  file.read(*file.find("gr\u00fc\u00dfe/.."), 0, bytes, 1);
  CHECK(bytes[0] == 'z');
  CHECK_FALSE(file.find("__metadata__"));
  CHECK_FALSE(file.find("a"));
}

TEST_CASE("safetensors: a read outside of the tensor is refused") {
  const TempFolder folder;
  write_file(folder / "m", with_length(kHeader, kData));
  const SafetensorsFile file(folder / "m");
  char bytes[16];
  for (auto [begin, count] : {std::pair<uint64_t, uint64_t>{0, 13}, {13, 0}, {12, 1}, {UINT64_MAX, 2}, {1, UINT64_MAX}})
    CHECK(lacks(error_of(ErrorKind::Io, [&] { file.read(*file.find("a"), begin, bytes, count); }),
                {folder / "m", "\"a\"", "12 bytes"}) == "");
}

TEST_CASE("safetensors: the checkpoints of the reference open") {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SWIFTLET_TEST_DATA "/checkpoints")) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file(entry.path().string());
    CHECK(file.tensors().size() > 10);
    check_bounds(file, entry.file_size());
    ++files;
  }
  CHECK(files > 5);
}

TEST_CASE("safetensors: a header that is wrong is refused, and the message says where") {
  const TempFolder folder;
  const auto tensor = [](const std::string& fields) { return "{\"t\":{" + fields + "}}"; };
  const std::string good = R"("dtype":"U8","shape":[16],"data_offsets":[0,16])";
  struct Row {
    std::string header;
    std::vector<std::string> says;
  };
  const std::vector<Row> rows = {
      {"", {"does not begin with '{'"}},
      {" {}", {"does not begin with '{'"}},
      {"[]", {"does not begin with '{'"}},
      {"{", {"not valid JSON (at byte 1 of 1)"}},
      {"{}x", {"not valid JSON"}},
      {"{\"\xff\":1}", {"not valid JSON"}},
      {"{\"t\":1e999}", {"out of range"}},
      {std::string("{}\0", 3), {"not valid JSON"}},
      {"{\"t\":[]}", {"\"t\" is an array, but must be an object"}},
      {"{\"t\":null}", {"\"t\" is null"}},
      {tensor(R"("shape":[16],"data_offsets":[0,16])"), {"\"t\".dtype is missing"}},
      {tensor(R"("dtype":"U8","data_offsets":[0,16])"), {"\"t\".shape is missing"}},
      {tensor(R"("dtype":"U8","shape":[16])"), {"\"t\".data_offsets is missing"}},
      {tensor(R"("dtype":"F4","shape":[16],"data_offsets":[0,16])"), {"\"t\".dtype is \"F4\""}},
      {tensor(R"("dtype":8,"shape":[16],"data_offsets":[0,16])"), {"\"t\".dtype is 8", "string"}},
      {tensor(R"("dtype":"U8","shape":16,"data_offsets":[0,16])"), {"\"t\".shape is 16", "array"}},
      {tensor(R"("dtype":"U8","shape":[-16],"data_offsets":[0,16])"), {"\"t\".shape[0] is -16"}},
      {tensor(R"("dtype":"U8","shape":[16.0],"data_offsets":[0,16])"), {"\"t\".shape[0] is 16.0"}},
      {tensor(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,16])"), {"\"t\".shape[0] is 9223372"}},
      {tensor(R"("dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,16])"), {"\"t\".shape[0] is 1e+20"}},
      {tensor(R"("dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,0])"), {"\"t\".shape", "2^64"}},
      {tensor(R"("dtype":"F64","shape":[2305843009213693954],"data_offsets":[0,16])"), {"\"t\".shape", "2^64"}},
      {tensor(R"("dtype":"U8","shape":[15],"data_offsets":[0,16])"), {"\"t\".data_offsets", "0 to 16", "15 bytes"}},
      {tensor(R"("dtype":"U8","shape":[16],"data_offsets":[16,0])"), {"\"t\".data_offsets", "16 to 0"}},
      {tensor(R"("dtype":"U8","shape":[9223372036854775800,2],"data_offsets":[16,0])"),
       {"\"t\".data_offsets", "16 to 0"}},
      {tensor(R"("dtype":"U8","shape":[16],"data_offsets":[1,17])"), {"\"t\".data_offsets[1] is 17", "0 to 16"}},
      {tensor(R"("dtype":"U8","shape":[0],"data_offsets":[17,17])"), {"\"t\".data_offsets[0] is 17"}},
      {tensor(R"("dtype":"U8","shape":[16],"data_offsets":[-16,0])"), {"\"t\".data_offsets[0] is -16"}},
      {tensor(R"("dtype":"U8","shape":[16],"data_offsets":[0])"), {"\"t\".data_offsets", "two numbers"}},
      {tensor(R"("dtype":"U8","shape":[16],"data_offsets":[0,16,16])"), {"\"t\".data_offsets", "two numbers"}},
      {"{\"t\":{" + good + "},\"u\":{" + good + "}}", {"\"t\"", "\"u\"", "overlap"}},
      {"{\"t\":{" + good + R"(},"inner":{"dtype":"U8","shape":[1],"data_offsets":[15,16]}})",
       {"\"t\"", "\"inner\"", "overlap"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.header);
    write_file(folder / "m", with_length(row.header, kData));
    const std::string message = error_of(ErrorKind::Container, [&] { SafetensorsFile file(folder / "m"); });
    CHECK(lacks(message, {folder / "m", "; the file is damaged or incomplete: fetch or make it again"}) == "");
    for (const std::string& part : row.says) CHECK(lacks(message, {part}) == "");
  }
  CHECK(survives(folder / "m", with_length("{\"t\":{" + good + "}}", kData)));  // the rows differ from it by one thing
}

TEST_CASE("safetensors: of equal names the last counts") {
  const TempFolder folder;
  write_file(folder / "m",
             with_length(R"({"t":{"dtype":"F99"},"t":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})", kData));
  const SafetensorsFile file(folder / "m");
  REQUIRE(file.find("t"));
  CHECK(file.find("t")->bytes == 1);
}

TEST_CASE("safetensors: a header length beyond the file or the limit") {
  const TempFolder folder;
  const auto message = [&] { return error_of(ErrorKind::Container, [&] { SafetensorsFile file(folder / "m"); }); };
  for (uint64_t length : {uint64_t(3), uint64_t(1) << 40, UINT64_MAX - 7, UINT64_MAX}) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    write_file(folder / "m", bytes + "{}");
    CHECK(lacks(message(), {folder / "m", "a header of " + std::to_string(length) + " bytes", "has 10 bytes"}) == "");
  }
  write_file(folder / "m", std::string("\x01\x00\x40\x06\x00\x00\x00\x00{}", 10));  // 100 MiB and one byte
  std::filesystem::resize_file(folder / "m", uint64_t(200) << 20);                  // a hole: takes no space
  CHECK(lacks(message(), {folder / "m", "a header of 104857601 bytes", "more than the 104857600"}) == "");
}

TEST_CASE("safetensors: deep nesting does not exhaust the stack") {
  const TempFolder folder;
  for (const char* open : {"[", "{\"a\":"}) {
    std::string header = "{\"t\":";
    for (int i = 0; i < 1'000'000; ++i) header += open;
    write_file(folder / "m", with_length(header, ""));
    CHECK(lacks(error_of(ErrorKind::Container, [&] { SafetensorsFile file(folder / "m"); }),
                {folder / "m", "nested more than 64 deep"}) == "");
  }
}

TEST_CASE("safetensors: cut off at any byte") {
  const TempFolder folder;
  const std::string whole = with_length(kHeader, kData);
  int accepted = 0;
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) accepted += survives(folder / "m", whole.substr(0, bytes));
  CHECK(accepted == 0);
  CHECK(survives(folder / "m", whole));
}

TEST_CASE("safetensors: flipped bits") {
  const TempFolder folder;
  const std::string whole = with_length(kHeader, kData);
  int refused = 0;
  for (size_t bit = 0; bit < 8 * (8 + kHeader.size()); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    refused += !survives(folder / "m", bytes);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    for (int flips = 0; flips < 4; ++flips) bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    refused += !survives(folder / "m", bytes);
  }
  CHECK(refused > 1000);
}

TEST_CASE("json: text of unknown origin is shown in ASCII and cut") {
  CHECK(in_quotes("a.b") == "\"a.b\"");
  CHECK(in_quotes("\x1b[31m\n\"\\") == "\"\\u001b[31m\\n\\\"\\\\\"");
  CHECK(in_quotes("gr\u00fcn") == "\"gr\\u00fcn\"");
  CHECK(in_quotes("\xff") == "\"\\ufffd\"");
  CHECK(in_quotes(std::string(81, 'x')) == "\"" + std::string(80, 'x') + "...\"");
  CHECK(in_quotes(std::string(79, 'x') + "\u00fc") == "\"" + std::string(79, 'x') + "\\ufffd...\"");
}

TEST_CASE("json: a text file has a limit") {
  const TempFolder folder;
  write_file(folder / "t", "12345");
  CHECK(read_text(folder / "t", 5) == "12345");
  CHECK(lacks(error_of(ErrorKind::Container, [&] { read_text(folder / "t", 4); }), {folder / "t", "5 bytes", "4"}) ==
        "");
  std::filesystem::resize_file(folder / "t", (uint64_t(64) << 20) + 1);
  CHECK(lacks(error_of(ErrorKind::Container, [&] { read_text(folder / "t"); }), {folder / "t", "67108864"}) == "");
}
