// Working memory of a matmul call.
#pragma once

#include <cstddef>

namespace swiftlet {

// `count` floats of the calling thread, 64-byte aligned, kept until the thread ends and used anew by its next call.
float* matmul_scratch(size_t count);

}  // namespace swiftlet
