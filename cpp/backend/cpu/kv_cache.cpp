#include "backend/cpu/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace swiftlet {
namespace {

size_t element_bytes(KvType type) { return type == KvType::F32 ? 4 : type == KvType::F16 ? 2 : 1; }

void quantize(const float* x, int64_t n, int8_t* codes, float* scale) {
  float top = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    top = std::max(top, std::abs(x[i]));
    finite &= std::isfinite(x[i]);
  }
  *scale = finite ? top / 127.0f : std::numeric_limits<float>::quiet_NaN();
  const float inverse = 127.0f / top;  // infinite for a top that is 0, or as good as 0
  const bool zero = !finite || !std::isfinite(inverse);
  for (int64_t i = 0; i < n; ++i) codes[i] = zero ? int8_t(0) : int8_t(std::lrint(x[i] * inverse));
}

}  // namespace

void store_kv_row(const float* x, int64_t n, KvType type, Buffer* rows, Buffer* scales, int64_t row) {
  std::byte* out = rows->host() + size_t(row * n) * element_bytes(type);
  switch (type) {
    case KvType::F32:
      std::memcpy(out, x, size_t(n) * sizeof(float));
      break;
    case KvType::F16:
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<uint16_t*>(out)[i] = float_to_f16(x[i]);
      break;
    case KvType::Int8:
      quantize(x, n, reinterpret_cast<int8_t*>(out), reinterpret_cast<float*>(scales->host()) + row);
      break;
  }
}

KvBlock kv_block(const KvCache& cache, int64_t begin, int count, int kv_head, int kv_heads, int64_t head_dim) {
  const int64_t row = begin * kv_heads + kv_head;
  const size_t offset = size_t(row * head_dim) * element_bytes(cache.type);
  const bool scaled = cache.type == KvType::Int8;
  const auto scales = [&](const std::unique_ptr<Buffer>& buffer) {
    return scaled ? reinterpret_cast<const float*>(buffer->host()) + row : nullptr;
  };
  return {.type = cache.type,
          .keys = cache.keys->host() + offset,
          .values = cache.values->host() + offset,
          .key_scales = scales(cache.key_scales),
          .value_scales = scales(cache.value_scales),
          .stride = kv_heads * head_dim,
          .scale_stride = kv_heads,
          .positions = count};
}

}  // namespace swiftlet
