// Records which experts each layer asked for, for the policy simulator in benchmarks/.
#pragma once

#include <fstream>
#include <string>

#include "backend/backend.h"

namespace swiftlet {

// JSON lines, one a chunk:  {"tokens": T, "layers": {"0": [ids, ascending]}, "counts": {"0": [tokens that chose each]}}
class RoutingTrace {
 public:
  explicit RoutingTrace(const std::string& path);  // replaces the file; throws ErrorKind::Io

  void route(int layer, const Routes& routes);
  void end_chunk(int tokens);

 private:
  std::string path_;
  std::ofstream file_;
  std::string layers_, counts_;  // of the chunk so far
};

}  // namespace swiftlet
