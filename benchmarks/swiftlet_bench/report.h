// Where measurements go: a table on stdout, and JSON lines in a file.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace swiftlet::bench {

using Json = nlohmann::ordered_json;

class Report {
 public:
  // `file`: empty, or a path that gets one JSON object a measurement: `common` of the command, the machine, the date
  // and the version, then the measurement's own keys. Throws ErrorKind::Input if it cannot be written.
  Report(const std::string& file, Json common);
  void add(const Json& measurement);

 private:
  std::string file_;
  std::ofstream out_;
  Json common_;
};

}  // namespace swiftlet::bench
