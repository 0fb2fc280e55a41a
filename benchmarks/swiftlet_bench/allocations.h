// How often the program has asked for memory with operator new.
#pragma once

#include <cstdint>

namespace swiftlet::bench {

uint64_t allocations();

}  // namespace swiftlet::bench
