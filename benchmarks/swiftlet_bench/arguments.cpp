#include "arguments.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"

namespace swiftlet::bench {
namespace {

const std::map<std::string, std::string> kShortNames = {
    {"--threads", "-t"}, {"--prompt", "-p"}, {"--decode", "-n"}, {"--repeat", "-r"}, {"--memory", "-m"}};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::string join(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all.append(all.empty() ? "" : ", ").append(part);
  return all;
}

int64_t parse_number(const std::string& name, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    fail(ErrorKind::Input, name, " is '", text, "', but must be a whole number from ", least, " to ", most);
  return value;
}

// A number that begins the text, and what follows it; NaN if none does.
std::pair<double, std::string> split_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return {NAN, text};
  return {value, end};
}

}  // namespace

const std::string* Arguments::find(const std::string& name) {
  const auto short_name = kShortNames.find(name);
  const std::string* value = nullptr;
  for (size_t i = 0; i < words_.size(); ++i) {
    if (used_[i] || (words_[i] != name && (short_name == kShortNames.end() || words_[i] != short_name->second)))
      continue;
    if (i + 1 == words_.size() || used_[i + 1]) fail(ErrorKind::Input, name, " needs a value");
    used_[i] = used_[i + 1] = true;
    value = &words_[i + 1];
  }
  return value;
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) {
  const std::string* value = find(name);
  return value ? *value : otherwise;
}

std::vector<std::string> Arguments::choices(const std::string& name, const std::vector<std::string>& choices) {
  const std::string* value = find(name);
  if (!value) return choices;
  const std::vector<std::string> chosen = split(*value);
  const auto known = [&](const std::string& word) { return std::ranges::find(choices, word) != choices.end(); };
  if (chosen.empty() || !std::ranges::all_of(chosen, known))
    fail(ErrorKind::Input, name, " is '", *value, "', but must be of: ", join(choices));
  return chosen;
}

std::string Arguments::choice(const std::string& name, const std::vector<std::string>& choices) {
  const std::string* value = find(name);
  if (!value) return choices.front();
  if (std::ranges::find(choices, *value) == choices.end())
    fail(ErrorKind::Input, name, " is '", *value, "', but must be one of: ", join(choices));
  return *value;
}

int64_t Arguments::number(const std::string& name, int64_t otherwise, int64_t least, int64_t most) {
  const std::string* value = find(name);
  return value ? parse_number(name, *value, least, most) : otherwise;
}

std::vector<int64_t> Arguments::numbers(const std::string& name, const std::vector<int64_t>& otherwise, int64_t least,
                                        int64_t most) {
  const std::string* value = find(name);
  if (!value) return otherwise;
  std::vector<int64_t> values;
  for (const std::string& part : split(*value)) values.push_back(parse_number(name, part, least, most));
  if (values.empty()) fail(ErrorKind::Input, name, " needs at least one number");
  return values;
}

double Arguments::seconds(const std::string& name, double otherwise) {
  const std::string* value = find(name);
  if (!value) return otherwise;
  const auto [number, rest] = split_number(*value);
  if (!rest.empty() || !(number > 0) || !std::isfinite(number))
    fail(ErrorKind::Input, name, " is '", *value, "', but must be a positive number of seconds");
  return number;
}

uint64_t Arguments::bytes(const std::string& name) {
  static const std::map<std::string, double> kUnits = {{"", 1},
                                                       {"K", 1e3},
                                                       {"M", 1e6},
                                                       {"G", 1e9},
                                                       {"T", 1e12},
                                                       {"KI", 1024},
                                                       {"MI", 1024.0 * 1024},
                                                       {"GI", 1073741824.0},
                                                       {"TI", 1099511627776.0}};
  const std::string* value = find(name);
  if (!value) return 0;
  auto [number, unit] = split_number(*value);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  if (unit.ends_with('B')) unit.pop_back();
  const auto factor = kUnits.find(unit);
  const double size = factor == kUnits.end() ? NAN : number * factor->second;
  if (!(size >= 1 && size < 0x1p63))
    fail(ErrorKind::Input, name, " is '", *value, "'; give a number of bytes or something like 4GB or 512MiB");
  return uint64_t(size);
}

std::string Arguments::isa() {
  std::vector<std::string> names = cpu_isas();
  names.push_back("auto");
  const std::string name = choice("--isa", names);
  return name == "auto" ? names.front() : name;
}

bool Arguments::flag(const std::string& name) {
  bool found = false;
  for (size_t i = 0; i < words_.size(); ++i)
    if (words_[i] == name) used_[i] = found = true;
  return found;
}

std::string Arguments::positional(const std::string& what) {
  for (size_t i = 0; i < words_.size(); ++i)
    if (!used_[i] && !words_[i].starts_with('-')) {
      used_[i] = true;
      return words_[i];
    }
  fail(ErrorKind::Input, "no ", what, " was given; try --help");
}

void Arguments::done() const {
  for (size_t i = 0; i < words_.size(); ++i)
    if (!used_[i]) fail(ErrorKind::Input, "'", words_[i], "' is not an argument of this command; try --help");
}

}  // namespace swiftlet::bench
