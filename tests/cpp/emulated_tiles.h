#pragma once

#include "backend/cpu/integers.h"

namespace swiftlet::test {

// On x86-64; needs AVX2. x as pack_avx2 leaves it.
void integer_matmul_emulated_tiles(const Matrix& w, const std::byte* x, int tokens, float* y, int64_t y_stride,
                                   int64_t row_begin, int64_t row_end);

}  // namespace swiftlet::test
