#include "container/json.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace swiftlet {
namespace {

constexpr int kMaxDepth = 64;  // copying and printing a value recurse
constexpr size_t kMaxShown = 80;

std::string shown(const nlohmann::json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

[[noreturn]] void refuse_syntax(const std::string& path, size_t byte, size_t size, const std::string& remedy) {
  fail(ErrorKind::Container, path, " is not valid JSON (at byte ", std::min(byte, size), " of ", size, "); ", remedy);
}

}  // namespace

std::string read_text(const std::string& path, uint64_t limit) {
  const File file(path);
  if (file.size() > limit)
    fail(ErrorKind::Container, path, " has ", file.size(), " bytes, more than the ", limit,
         " that such a file may have");
  std::string text(file.size(), '\0');
  file.read_at(0, text.data(), text.size());
  return text;
}

std::string in_quotes(std::string_view text) {
  const bool cut = text.size() > kMaxShown;
  const nlohmann::json value = std::string(text.substr(0, kMaxShown)) + (cut ? "..." : "");
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

JsonFile parse_json(std::string_view text, const std::string& path, const std::string& remedy) {
  const auto check_depth = [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    if (depth > kMaxDepth) fail(ErrorKind::Container, path, " is JSON nested more than ", kMaxDepth, " deep; ", remedy);
    return true;
  };
  // The parser would take a zero byte for the end of the text.
  if (const size_t zero = text.find('\0'); zero != text.npos) refuse_syntax(path, zero + 1, text.size(), remedy);
  try {
    return {path, remedy, nlohmann::json::parse(text, check_depth)};
  } catch (const nlohmann::json::parse_error& error) {
    refuse_syntax(path, error.byte, text.size(), remedy);
  } catch (const nlohmann::json::out_of_range&) {
    fail(ErrorKind::Container, path, " is JSON with a number that is out of range; ", remedy);
  }
}

const nlohmann::json& JsonRef::object() const {
  if (!value_->is_object()) refuse("an object");
  return *value_;
}

std::optional<JsonRef> JsonRef::find(const char* key) const {
  const auto found = object().find(key);
  if (found == value_->end()) return std::nullopt;
  return JsonRef(*file_, *found, key_.empty() ? key : key_ + "." + key);
}

JsonRef JsonRef::at(const char* key) const {
  if (auto found = find(key)) return *found;
  const std::string path = key_.empty() ? key : key_ + "." + key;
  fail(ErrorKind::Container, file_->path, ": ", path, " is missing; ", file_->remedy);
}

std::vector<JsonRef> JsonRef::elements() const {
  if (!value_->is_array()) refuse("an array");
  std::vector<JsonRef> refs;
  refs.reserve(value_->size());
  for (const nlohmann::json& element : *value_)
    refs.push_back(JsonRef(*file_, element, key_ + "[" + std::to_string(refs.size()) + "]"));
  return refs;
}

std::vector<std::pair<std::string, JsonRef>> JsonRef::members() const {
  std::vector<std::pair<std::string, JsonRef>> refs;
  refs.reserve(object().size());
  for (const auto& [key, value] : value_->items())
    refs.emplace_back(key, JsonRef(*file_, value, key_.empty() ? in_quotes(key) : key_ + "." + in_quotes(key)));
  return refs;
}

uint64_t JsonRef::as_uint(uint64_t max) const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > max)
    refuse("a whole number from 0 to " + std::to_string(max));
  return value_->get<uint64_t>();
}

const std::string& JsonRef::as_string() const {
  if (!value_->is_string()) refuse("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonRef::as_bool() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

std::vector<int64_t> JsonRef::as_shape() const {
  std::vector<int64_t> shape;
  for (const JsonRef& dim : elements()) shape.push_back(static_cast<int64_t>(dim.as_uint(INT64_MAX)));
  return shape;
}

void JsonRef::refuse(const std::string& expected) const {
  complain("is " + shown(*value_) + ", but must be " + expected);
}

void JsonRef::complain(const std::string& problem) const {
  fail(ErrorKind::Container, file_->path, ": ", key_.empty() ? "the top level" : key_, " ", problem, "; ",
       file_->remedy);
}

}  // namespace swiftlet
