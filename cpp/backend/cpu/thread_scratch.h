// Working memory of an operation on one thread: a matmul, a delta rule, the interleaving of an expert.
#pragma once

#include <cstddef>

namespace swiftlet {

// `count` floats of the calling thread, 64-byte aligned, kept until the thread ends and used anew by its next
// operation.
float* thread_scratch(size_t count);

}  // namespace swiftlet
