// The sub-commands of swiftlet-bench. Each takes its own arguments, prints a table and writes JSON if asked to.
#pragma once

#include "arguments.h"

namespace swiftlet::bench {

void kernels(Arguments& arguments);
void decode(Arguments& arguments);
void prefill(Arguments& arguments);
void context(Arguments& arguments);
void io(Arguments& arguments);

}  // namespace swiftlet::bench
