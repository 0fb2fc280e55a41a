// Arguments of a command: each command asks for those that it knows, and what is left over is an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swiftlet::bench {

// All methods throw ErrorKind::Input, naming the option and its value. An option is written "--name VALUE", or with
// its one-letter name "-n VALUE"; of several the last counts.
class Arguments {
 public:
  Arguments(int argc, char** argv) : words_(argv, argv + argc), used_(words_.size()) {}

  std::string text(const std::string& name, const std::string& otherwise);
  std::string choice(const std::string& name, const std::vector<std::string>& choices);  // the first: if not given
  std::vector<std::string> choices(const std::string& name, const std::vector<std::string>& choices);  // all likewise
  int64_t number(const std::string& name, int64_t otherwise, int64_t least, int64_t most);
  std::vector<int64_t> numbers(const std::string& name, const std::vector<int64_t>& otherwise, int64_t least,
                               int64_t most);                 // "512,2048"
  double seconds(const std::string& name, double otherwise);  // positive
  uint64_t bytes(const std::string& name);                    // "4GB", "512MiB", "3G"; 0: not given
  std::string isa();                                          // of --isa: a name, never "auto"
  bool flag(const std::string& name);                         // an option without a value

  // The word that is no option. Ask for all options first.
  std::string positional(const std::string& what);
  void done() const;  // complains of words that nobody asked for

 private:
  const std::string* find(const std::string& name);
  std::vector<std::string> words_;
  std::vector<bool> used_;
};

}  // namespace swiftlet::bench
