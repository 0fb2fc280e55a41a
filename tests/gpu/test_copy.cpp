#include "device_under_test.h"
#include "metal/kernel_args.h"

using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

TEST_CASE("copy: quads up to the last, and none beyond") {
  on_devices([](Device& device) {
    std::vector<uint32_t> values(4 * 70);
    for (uint32_t i = 0; i < values.size(); ++i) values[i] = i + 1;
    const auto from = upload(device, values), to = upload(device, std::vector<uint32_t>(values.size()));
    run(device, {"copy", "copy"}, {}, {{from.get()}, {to.get(), 0, true}}, CopyArgs{69}, {3}, 32);
    std::fill(values.end() - 4, values.end(), 0u);
    CHECK(download<uint32_t>(device, *to) == values);
  });
}
