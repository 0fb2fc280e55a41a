// packed_experts/layout.json: how many layers and experts there are, and how an expert's blob is divided.
#pragma once

#include <string_view>

#include "container/qpack.h"

namespace swiftlet {

// Fills layer_count, expert_count, linear_layers, layouts and max_stride of `qpack` from the text of a layout.json.
// `file` names the source in messages. Every section lies inside its stride, is aligned to its dtype, agrees with its
// shape and overlaps no other; expert_count * stride fits in 64 bits. Throws ErrorKind::Container.
void parse_layout(std::string_view json, const std::string& file, Qpack& qpack);

}  // namespace swiftlet
