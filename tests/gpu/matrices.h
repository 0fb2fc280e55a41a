// Weight matrices as the kernels see them.
#pragma once

#include <string>
#include <vector>

#include "device_under_test.h"
#include "metal/kernel_args.h"
#include "tests/random_matrix.h"

namespace swiftlet::gpu::test {

using swiftlet::test::Format;
using swiftlet::test::name_of;
using swiftlet::test::RandomMatrix;
using swiftlet::test::worst_error;

// Largest |y - exact| of a product allowed, relative to sum |x| |w|: what sums in f32 leave, and, of affine codes, that
// scale * sum(code x) + bias * sum(x) cancels.
constexpr double kProductTolerance = 2e-6;

// Every codec; of affine codes every pair of bits, group size and type of the scales. Not every combination of the
// three: a pipeline has to be compiled for each.
inline std::vector<Format> formats() {
  std::vector<Format> result;
  for (const Format& f : swiftlet::test::all_formats())
    if (f.codec != Codec::Affine || (f.bits + f.group_size / 64 + int(f.dtype)) % 3 == 0) result.push_back(f);
  return result;
}

// Lanes that share a row, in tests of this encoding.
inline uint32_t lanes_of(const Format& f) { return 8u << (f.bits + int(f.dtype)) % 3; }

constexpr uint64_t kWideAlignment = 16;

// Whether kConstWide may be 1 for a matrix that lies at a multiple of 16 bytes.
inline bool can_be_wide(const Matrix& m) {
  const auto aligned = [](uint64_t offset, uint64_t to) { return offset % to == 0; };
  return m.cols % kPiece == 0 && aligned(m.weight_offset, 16) && aligned(m.weight_row_bytes(), 16) &&
         aligned(m.scales_offset, size_of(m.dtype)) && aligned(m.biases_offset, size_of(m.dtype));
}

inline std::vector<Constant> encoding(const Matrix& m, bool wide, const std::vector<Constant>& more = {}) {
  const uint32_t dtype = m.dtype == DType::F32    ? kF32
                         : m.dtype == DType::F16  ? kF16
                         : m.dtype == DType::BF16 ? kBf16
                                                  : kU8;
  std::vector<Constant> constants = {{kConstCodec, uint32_t(m.codec)},
                                     {kConstBits, m.codec == Codec::Plain ? 0 : uint32_t(m.bits)},
                                     {kConstGroup, uint32_t(m.group_size)},
                                     {kConstDtype, dtype},
                                     {kConstWide, wide}};
  constants.insert(constants.end(), more.begin(), more.end());
  return constants;
}

inline MatrixPlace place_of(const Matrix& m, uint64_t base) {
  return {base + m.weight_offset, base + m.scales_offset, base + m.biases_offset};
}

// Bytes of several matrices and vectors, each from a multiple of 16 on. Ends with what came last.
struct Bytes {
  std::vector<std::byte> all;

  uint64_t add(const void* data, size_t bytes) {
    const size_t begin = (all.size() + 15) / 16 * 16;
    all.resize(begin + bytes);
    std::memcpy(all.data() + begin, data, bytes);
    return begin;
  }
  MatrixPlace add(const RandomMatrix& m) { return place_of(m.matrix, add(m.memory.data(), m.memory.size())); }

  // Its pieces in the opposite order: what is read beyond the end of the scales shows.
  MatrixPlace add_scales_last(const Matrix& m) {
    const uint64_t scale_bytes = uint64_t(m.rows) * m.scale_row_bytes();
    const uint64_t weight = add(m.weight(), uint64_t(m.rows) * m.weight_row_bytes());
    const uint64_t biases = m.codec == Codec::Affine ? add(m.biases(), scale_bytes) : 0;
    return {weight, m.codec == Codec::Plain ? 0 : add(m.scales(), scale_bytes), biases};
  }
};

// Widths in columns that end in the middle of the kernels' pieces and teams, of rows that kernels read in wide steps
// and of such that they do not.
inline std::vector<int64_t> widths(const Format& f) {
  if (f.codec == Codec::Plain) return {1, 31, 64, 130, 515, 1024};
  const int64_t g = f.group_size;
  if (f.codec == Codec::NvFp4) return {g, 5 * g, 8 * g, 33 * g};
  return {g, 3 * g, 4 * g, 9 * g, 640};
}

// The experts of a layer in slots of several memories, in no order.
struct PooledExperts {
  std::vector<RandomMatrix> gate, up, down;  // by expert; [intermediate, hidden] twice, [hidden, intermediate]
  MatrixPlace gate_place{}, up_place{}, down_place{};
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<uint64_t> addresses;  // of slots, by expert

  PooledExperts(Device& device, const Format& f, uint32_t experts, int64_t hidden, int64_t intermediate,
                uint64_t alignment) {
    std::vector<Bytes> blobs(experts);
    for (uint32_t e = 0; e < experts; ++e) {
      gate.emplace_back(f, intermediate, hidden, false, alignment, 3 * e);
      up.emplace_back(f, intermediate, hidden, false, alignment, 3 * e + 1);
      down.emplace_back(f, hidden, intermediate, false, alignment, 3 * e + 2);
      gate_place = blobs[e].add(gate[e]);
      up_place = blobs[e].add(up[e]);
      down_place = blobs[e].add(down[e]);
    }
    constexpr uint32_t kMemories = 2;
    const uint64_t stride = (blobs[0].all.size() + 4095) / 4096 * 4096;
    for (uint32_t m = 0; m < kMemories; ++m) memories.push_back(device.allocate(experts * stride, Placement::Private));
    addresses.resize(experts);
    for (uint32_t e = 0; e < experts; ++e) {
      Memory& memory = *memories[e % kMemories];
      const uint64_t offset = (experts - 1 - e) * stride;
      device.write(memory, offset, blobs[e].all.data(), blobs[e].all.size());
      addresses[e] = memory.address() + offset;
    }
  }
  // The slots of these experts, in this order.
  std::unique_ptr<Memory> slots(Device& device, const std::vector<uint32_t>& experts) const {
    std::vector<uint64_t> listed;
    for (const uint32_t e : experts) listed.push_back(addresses[e]);
    return upload(device, listed);
  }
  // Kernels queued until the next commit read the slots.
  void use(Device& device) const {
    for (const auto& memory : memories) device.use(*memory);
  }
};

}  // namespace swiftlet::gpu::test
