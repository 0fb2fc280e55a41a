// JSON from outside: bounded, and every complaint names file, key, value and remedy.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swiftlet {

// The text of a file of at most `limit` bytes. Throws ErrorKind::Container.
std::string read_text(const std::string& path, uint64_t limit = uint64_t(64) << 20);

// Text of unknown origin for a message: in quotes, ASCII, control characters escaped, cut after 80 bytes.
std::string in_quotes(std::string_view text);

// Parsed text, and what messages say of it.
struct JsonFile {
  std::string path;
  std::string remedy;  // "download it again": the last clause of each message
  nlohmann::json root;
};

// Throws ErrorKind::Container for text that is not JSON or is nested more than 64 deep. Of equal keys the last counts.
JsonFile parse_json(std::string_view text, const std::string& path, const std::string& remedy);

// A value inside a JsonFile and the way to it. Getters throw ErrorKind::Container unless the value has that type.
class JsonRef {
 public:
  explicit JsonRef(const JsonFile& file) : JsonRef(file, file.root, "") {}
  explicit JsonRef(JsonFile&&) = delete;  // it would outlive the file

  std::optional<JsonRef> find(const char* key) const;  // a member of this object, if there
  JsonRef at(const char* key) const;                   // a member of this object that must be there

  std::vector<JsonRef> elements() const;                         // of this array
  std::vector<std::pair<std::string, JsonRef>> members() const;  // of this object, by key

  uint64_t as_uint(uint64_t max) const;  // a whole number from 0 to max
  const std::string& as_string() const;
  bool as_bool() const;
  std::vector<int64_t> as_shape() const;  // an array of whole numbers, none negative

  // Throws "FILE: KEY is VALUE, but must be `expected`; REMEDY".
  [[noreturn]] void refuse(const std::string& expected) const;
  // Throws "FILE: KEY `problem`; REMEDY".
  [[noreturn]] void complain(const std::string& problem) const;

 private:
  JsonRef(const JsonFile& file, const nlohmann::json& value, std::string key)
      : file_(&file), value_(&value), key_(std::move(key)) {}
  const nlohmann::json& object() const;

  const JsonFile* file_;
  const nlohmann::json* value_;
  std::string key_;  // "sections[3].offset"; "" at the top
};

}  // namespace swiftlet
