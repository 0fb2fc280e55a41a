#include "engine/trace.h"

#include <map>

#include "base/error.h"

namespace swiftlet {

RoutingTrace::RoutingTrace(const std::string& path) : path_(path), file_(path) {
  if (!file_) fail(ErrorKind::Io, "cannot write the trace ", path, ": does its folder exist and may it be written?");
}

void RoutingTrace::route(int layer, const Routes& routes) {
  std::map<int32_t, int> tokens_of;
  for (const int32_t expert : routes.experts) tokens_of[expert]++;
  std::string key = layers_.empty() ? "\"" : ", \"";
  (key += std::to_string(layer)) += "\": [";
  layers_ += key;
  counts_ += key;
  const char* comma = "";
  for (const auto& [expert, tokens] : tokens_of) {
    (layers_ += comma) += std::to_string(expert);
    (counts_ += comma) += std::to_string(tokens);
    comma = ", ";
  }
  layers_ += "]";
  counts_ += "]";
}

void RoutingTrace::end_chunk(int tokens) {
  file_ << "{\"tokens\": " << tokens << ", \"layers\": {" << layers_ << "}, \"counts\": {" << counts_ << "}}\n"
        << std::flush;
  if (!file_) fail(ErrorKind::Io, "cannot write the trace ", path_, ": is the disk full?");
  layers_.clear();
  counts_.clear();
}

}  // namespace swiftlet
