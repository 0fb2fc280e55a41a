// Which dispatches of a concurrent encoder may overlap. Whole buffers count: two dispatches that write different parts
// of one buffer need a barrier here, though they would not on a GPU.
#pragma once

#include <map>
#include <string>

#include "commands.h"

namespace software_metal {

class Hazards {
 public:
  // Reports if a dispatch reads what one since the last barrier wrote, or writes what one read or wrote.
  void check(const Dispatch& dispatch) {
    for (const Parameter& each : dispatch.pipeline->kernel->parameters()) {
      if (each.bytes > 0) continue;
      const auto before = touched_.find(dispatch.arguments[each.index].buffer);
      if (before == touched_.end() || (!each.written && !before->second.written)) continue;
      report(dispatch.pipeline->name + ": buffer " + std::to_string(each.index) + " needs a barrier after " +
             before->second.kernel);
    }
    for (const Parameter& each : dispatch.pipeline->kernel->parameters()) {
      if (each.bytes > 0) continue;
      Touch& touch = touched_[dispatch.arguments[each.index].buffer];
      touch.written |= each.written;
      touch.kernel = dispatch.pipeline->name;
    }
  }

  void clear() { touched_.clear(); }  // a barrier

 private:
  struct Touch {
    bool written = false;
    std::string kernel;
  };
  std::map<const Buffer*, Touch> touched_;
};

}  // namespace software_metal
