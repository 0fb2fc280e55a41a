// Rows of a KV cache in its type.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/cpu_ops.h"

namespace swiftlet {

// Stores x [n] as row `row` (position * kv heads + head) of keys or values. Int8: scale = max |x| / 127, written to
// scales[row]; an x with NaN or infinity gets the scale NaN, so that it is not forgotten.
void store_kv_row(const float* x, int64_t n, KvType type, Buffer* rows, Buffer* scales, int64_t row);

// `count` positions from position `begin` on, from a KV head on.
KvBlock kv_block(const KvCache& cache, int64_t begin, int count, int kv_head, int kv_heads, int64_t head_dim);

}  // namespace swiftlet
