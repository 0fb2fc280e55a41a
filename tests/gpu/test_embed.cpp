#include "matrices.h"

using namespace swiftlet;
using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;
using swiftlet::test::dequantize;

namespace {

constexpr uint32_t kThreads = 64;

std::vector<float> embed(Device& device, const RandomMatrix& m, bool wide) {
  const uint32_t rows = uint32_t(m.matrix.rows), cols = uint32_t(m.matrix.cols);
  const auto memory = upload(device, m.memory),
             x = device.allocate(size_t(rows) * cols * sizeof(float), Placement::Private);
  run(device, {"embed", "embed"}, encoding(m.matrix, wide), {{memory.get()}, {x.get(), 0, true}},
      EmbedArgs{place_of(m.matrix, 0), cols}, {(cols + kThreads - 1) / kThreads, rows}, kThreads);
  return download<float>(device, *x);
}

// As the CPU decodes it. A scaled code plus a bias is rounded twice or, fused, once.
void check_rows(const RandomMatrix& m, const std::vector<float>& x) {
  const Matrix& w = m.matrix;
  for (int64_t r = 0; r < w.rows; ++r) {
    const std::vector<float> expected = dequantize(w, r);
    for (size_t c = 0; c < expected.size(); ++c) {
      const float got = x[size_t(r * w.cols) + c];
      if (w.codec == Codec::Affine)
        CHECK(std::abs(double(got) - double(expected[c])) <= 0x1p-22);  // scale * code is at most 2
      else
        CHECK(got == expected[c]);
    }
  }
}

}  // namespace

TEST_CASE("embed: rows of every encoding, any width and alignment") {
  on_devices([](Device& device) {
    for (const Format& f : formats()) {
      CAPTURE(name_of(f));
      for (const int64_t cols : widths(f)) {
        if (cols > 320) continue;
        CAPTURE(cols);
        const RandomMatrix m(f, 3, cols, false, kWideAlignment), odd(f, 2, cols, false, f.dtype == DType::U8 ? 1 : 2);
        const std::vector<float> x = embed(device, m, false);
        check_rows(m, x);
        if (can_be_wide(m.matrix)) CHECK(embed(device, m, true) == x);
        check_rows(odd, embed(device, odd, false));
      }
    }
  });
}

TEST_CASE("embed: rows beyond 4 GiB") {
  on_devices([](Device& device) {
    const RandomMatrix m({Codec::Affine, DType::BF16, 4, 64}, 2, 128, false, kWideAlignment);
    const uint64_t base = (uint64_t(1) << 32) + 4096;
    const auto far = allocate_sparse(device, base + m.memory.size());
    if (!far) return;
    device.write(*far, base, m.memory.data(), m.memory.size());
    const auto x = device.allocate(2 * 128 * sizeof(float), Placement::Private);
    run(device, {"embed", "embed"}, encoding(m.matrix, true), {{far.get()}, {x.get(), 0, true}},
        EmbedArgs{place_of(m.matrix, base), 128}, {2, 2}, kThreads);
    check_rows(m, download<float>(device, *x));
  });
}
