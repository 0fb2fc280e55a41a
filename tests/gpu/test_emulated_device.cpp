// The emulated device must find each fault that it claims to find.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "../cpp/temp_folder.h"
#include "backend/gpu/emulated/emulated_device.h"
#include "base/error.h"
#include "base/memory.h"
#include "device_under_test.h"

extern const swiftlet::gpu::emulated::Library msl_library_bad;

using namespace swiftlet;
using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

const emulated::Library* const kBad[] = {&msl_library_bad};

struct BadArgs {
  uint32_t n;
};

std::unique_ptr<Device> make(Order order) { return make_emulated_device({.order = order, .more = kBad}); }

std::vector<float> ascending(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// What a kernel that takes one buffer of 64 floats makes of 0, 1, 2, ...
std::vector<float> run_on_ascending(Device& device, const char* kernel) {
  const auto x = upload(device, ascending(64));
  device.dispatch(device.pipeline({"bad", kernel}, {}), std::vector<Binding>{{x.get(), 0, true}}, nullptr, 0, {}, 64);
  device.wait(device.commit());
  return download<float>(device, *x);
}

const auto both_orders = {Order::Forwards, Order::Backwards};

}  // namespace

TEST_CASE("emulated device: a missing threadgroup barrier shows in one of the orders") {
  for (const char* kernel : {"reverse", "reverse_without_barrier"}) {
    int right = 0;
    for (Order order : both_orders) {
      const auto device = make(order);
      const auto x = upload(*device, ascending(64));
      const auto out = device->allocate(64 * sizeof(float), Placement::Private);
      device->dispatch(device->pipeline({"bad", kernel}, {}), std::vector<Binding>{{x.get()}, {out.get(), 0, true}},
                       nullptr, 0, {}, 64);
      device->wait(device->commit());
      const std::vector<float> result = download<float>(*device, *out);
      std::vector<float> expected = ascending(64);
      std::reverse(expected.begin(), expected.end());
      right += result == expected;
    }
    CHECK(right == (std::string(kernel) == "reverse" ? 2 : 0));
  }
}

TEST_CASE("emulated device: operations that threads do not reach together") {
  for (Order order : both_orders) {
    const auto device = make(order);
    const auto message = [&](const char* kernel) {
      return error_of(ErrorKind::Numeric, [&] { run_on_ascending(*device, kernel); });
    };
    CHECK(lacks(message("divergent_sum"), {"simd_sum is not reached by all lanes of its SIMD group"}) == "");
    CHECK(lacks(message("divergent_sum"), {"bad.metal:"}) == "");
    CHECK(lacks(message("divergent_operation"), {"is not reached by all lanes of its SIMD group"}) == "");
    CHECK(lacks(message("sum_after_return"), {"lane 8 has returned"}) == "");
    CHECK(lacks(message("divergent_barrier"), {"threadgroup_barrier is not reached by all threads"}) == "");
    CHECK(lacks(message("different_barriers"), {"threadgroup_barrier is not reached by all threads"}) == "");
  }
}

TEST_CASE("emulated device: threadgroup memory is NaN until it is written, in every threadgroup") {
  for (Order order : both_orders) {
    const auto device = make(order);
    for (int i = 0; i < 2; ++i) {
      const std::vector<float> x = run_on_ascending(*device, "uninitialised");
      CHECK(x[0] == 1.0f);
      CHECK(std::isnan(x[1]));
    }
    CHECK(lacks(error_of(ErrorKind::Numeric, [&] { run_on_ascending(*device, "too_much_threadgroup_memory"); }),
                {"more than 32768 bytes of threadgroup memory"}) == "");
  }
}

TEST_CASE("emulated device: accesses outside of buffers") {
  for (Order order : both_orders) {
    const auto device = make(order);
    // A buffer that ends 4 bytes before a multiple of 16, and one that ends at one.
    for (size_t count : {63, 64}) {
      const auto write_at = [&](int32_t element) {
        const auto x = upload(*device, ascending(count));
        return error_of(ErrorKind::Numeric, [&] {
          run(*device, {"bad", "write_at"}, {}, {{x.get(), 0, true}}, BadArgs{uint32_t(element)}, {}, 32);
        });
      };
      CHECK(write_at(int32_t(count) - 1) == "<no error>");
      CHECK(lacks(write_at(int32_t(count)), {"bad.metal:"}) == "");
      CHECK(lacks(write_at(int32_t(count)), {count == 64 ? "outside of buffer 0 (x): byte 256 of 256 bytes"
                                                         : "wrote beside the memory of buffer 0 (x)"}) == "");
      CHECK(lacks(write_at(-1), {"wrote beside the memory of buffer 0 (x)"}) == "");
      CHECK(lacks(write_at(1 << 28), {"an access to address"}) == "");
    }
    const auto x = upload(*device, ascending(16)), out = upload(*device, ascending(32));
    CHECK(lacks(error_of(
                    ErrorKind::Numeric,
                    [&] { run(*device, {"bad", "copy"}, {}, {{x.get()}, {out.get(), 0, true}}, BadArgs{32}, {}, 32); }),
                {order == Order::Forwards ? "an access outside of buffer 0 (x): byte 64 of 64 bytes"
                                          : "an access outside of buffer 0 (x): byte 124 of 64 bytes"}) == "");
  }
}

TEST_CASE("emulated device: vectors at addresses that are no multiple of their size") {
  for (Order order : both_orders) {
    const auto device = make(order);
    for (const char* kernel : {"misaligned", "misaligned_threadgroup_memory"})
      CHECK(lacks(error_of(ErrorKind::Numeric, [&] { run_on_ascending(*device, kernel); }),
                  {kernel, "an access to a misaligned address"}) == "");
  }
}

TEST_CASE("emulated device: a division by zero is an error, and the device works on") {
  for (Order order : both_orders) {
    const auto device = make(order);
    const auto x = upload(*device, std::vector<uint32_t>(32, 0));
    const Pipeline& divide = device->pipeline({"bad", "divide"}, {});
    device->dispatch(divide, std::vector<Binding>{{x.get(), 0, true}}, nullptr, 0, {}, 32);
    CHECK(lacks(error_of(ErrorKind::Numeric, [&] { device->wait(device->commit()); }), {"integer division by zero"}) ==
          "");
    device->write(*x, 0, std::vector<uint32_t>(32, 50).data(), 128);
    device->dispatch(divide, std::vector<Binding>{{x.get(), 0, true}}, nullptr, 0, {}, 32);
    device->wait(device->commit());
    CHECK(download<uint32_t>(*device, *x) == std::vector<uint32_t>(32, 2));
  }
}

TEST_CASE("emulated device: function constants") {
  const auto device = make(Order::Forwards);
  const auto x = upload(*device, std::vector<float>(32));
  const auto run_with = [&](std::vector<Constant> constants) {
    device->dispatch(device->pipeline({"bad", "up_to_limit"}, constants), std::vector<Binding>{{x.get(), 0, true}},
                     nullptr, 0, {}, 32);
    device->wait(device->commit());
    return download<float>(*device, *x);
  };
  CHECK(run_with({{0, 3}})[2] == 3.0f);
  CHECK(run_with({{0, 3}})[3] == 0.0f);
  CHECK(run_with({{0, 5}})[4] == 5.0f);
  CHECK(lacks(error_of(ErrorKind::Numeric, [&] { run_with({}); }), {"function constant LIMIT is not set"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { run_with({{1, 3}}); }), {"bad.metal has no function constant 1"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { run_with({{0, 3}, {0, 3}}); }), {"given twice"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { device->pipeline({"bad", "nothing"}, {}); }),
              {"bad.metal has no kernel nothing"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { device->pipeline({"nothing", "copy"}, {}); }),
              {"there is no shader nothing.metal"}) == "");
}

TEST_CASE("emulated device: bindings that do not fit the kernel") {
  const auto device = make(Order::Forwards);
  const auto x = upload(*device, ascending(64)), out = upload(*device, ascending(64));
  const Pipeline& copy = device->pipeline({"bad", "copy"}, {});
  const auto message = [&](std::vector<Binding> buffers, size_t argument_bytes = 4, Grid grid = {},
                           uint32_t threads = 32) {
    const std::byte arguments[8] = {};
    return error_of(ErrorKind::Input,
                    [&] { device->dispatch(copy, buffers, arguments, argument_bytes, grid, threads); });
  };
  const Binding in{x.get()}, to{out.get(), 0, true};
  CHECK(message({in, to}) == "<no error>");
  CHECK(lacks(message({in}), {"takes 2 buffers, not 1"}) == "");
  CHECK(lacks(message({in, {}}), {"buffer 1 (out): no memory is bound"}) == "");
  CHECK(lacks(message({in, {out.get()}}),
              {"buffer 1 (out): can be written by the kernel, and is not bound as written"}) == "");
  CHECK(lacks(message({{x.get(), 0, true}, to}), {"buffer 0 (x): is const in the kernel, and bound as written"}) == "");
  CHECK(lacks(message({{x.get(), 2}, to}), {"offset 2 is not a multiple of 4"}) == "");
  CHECK(lacks(message({{x.get(), 256}, to}), {"offset 256 is not in a memory of 256 bytes"}) == "");
  CHECK(lacks(message({in, to}, 8), {"its struct of arguments has 4 bytes, not 8"}) == "");
  CHECK(lacks(message({in, to}, 4, {1, 0, 1}), {"an empty grid"}) == "");
  for (uint32_t threads : {0u, 31u, 48u, 1056u})
    CHECK(lacks(message({in, to}, 4, {}, threads), {"multiple of 32 threads"}) == "");
}

TEST_CASE("emulated device: dispatches without a barrier between them") {
  for (Order order : both_orders) {
    const auto device = make(order);
    const auto a = upload(*device, ascending(32)), b = upload(*device, std::vector<float>(32)),
               c = upload(*device, std::vector<float>(32));
    const BadArgs arguments{32};
    const auto copy = [&](const Memory& from, const Memory& to) {
      return error_of(ErrorKind::Input, [&] {
        device->dispatch(device->pipeline({"bad", "copy"}, {}), std::vector<Binding>{{&from}, {&to, 0, true}},
                         &arguments, sizeof arguments, {}, 32);
      });
    };
    CHECK(copy(*a, *b) == "<no error>");
    CHECK(lacks(copy(*b, *c), {"buffer 0 (x) is written by kernel copy, and there is no barrier between them"}) ==
          "");                                                                       // read after write
    CHECK(lacks(copy(*c, *a), {"buffer 1 (out) is read by kernel copy"}) == "");     // write after read
    CHECK(lacks(copy(*c, *b), {"buffer 1 (out) is written by kernel copy"}) == "");  // write after write
    device->commit();                                                                // is no barrier
    CHECK(lacks(copy(*b, *c), {"no barrier"}) == "");
    device->barrier();
    CHECK(copy(*b, *c) == "<no error>");
    CHECK(copy(*b, *a) == "<no error>");  // read after read
    device->wait(device->commit());
    CHECK(copy(*c, *b) == "<no error>");  // after a wait for everything
    device->wait(device->commit());
    CHECK(download<float>(*device, *c) == ascending(32));
    CHECK(device->counters().dispatches == 4);
    CHECK(device->counters().commits == 3);
    CHECK(device->counters().waits == 2);
  }
}

TEST_CASE("emulated device: memory that dispatches still use") {
  for (Order order : both_orders) {
    const auto device = make(order);
    auto a = upload(*device, ascending(32)), b = upload(*device, std::vector<float>(32));
    const BadArgs arguments{32};
    device->dispatch(device->pipeline({"bad", "copy"}, {}), std::vector<Binding>{{a.get()}, {b.get(), 0, true}},
                     &arguments, sizeof arguments, {}, 32);
    CHECK(lacks(error_of(ErrorKind::Input, [&] { download<float>(*device, *b); }),
                {"read: a memory of 128 bytes is in use"}) == "");
    CHECK(lacks(error_of(ErrorKind::Input, [&] { device->clear(*a); }), {"clear: a memory of 128 bytes is in use"}) ==
          "");
    const uint64_t ticket = device->commit();
    CHECK(lacks(error_of(ErrorKind::Input, [&] { download<float>(*device, *b); }),
                {"read: a memory of 128 bytes is in use"}) == "");
    device->wait(ticket);
    CHECK(download<float>(*device, *b) == ascending(32));
    CHECK(lacks(error_of(ErrorKind::Input, [&] { device->read(*b, 100, a.get(), 40); }),
                {"40 bytes at 100 are not in a memory of 128 bytes"}) == "");
    device->clear(*b);
    CHECK(download<float>(*device, *b) == std::vector<float>(32));
    CHECK(lacks(error_of(ErrorKind::Input, [&] { device->wait(ticket + 1); }), {"was not given yet"}) == "");
  }
  const auto device = make(Order::Forwards);
  auto a = upload(*device, ascending(32)), b = upload(*device, std::vector<float>(32));
  const BadArgs arguments{32};
  device->dispatch(device->pipeline({"bad", "copy"}, {}), std::vector<Binding>{{a.get()}, {b.get(), 0, true}},
                   &arguments, sizeof arguments, {}, 32);
  const uint64_t ticket = device->commit();
  a.reset();
  CHECK(lacks(error_of(ErrorKind::Numeric, [&] { device->wait(ticket); }), {"given back while dispatches use it"}) ==
        "");
}

TEST_CASE("emulated device: placements, wrapped memory and addresses") {
  for (Order order : both_orders) {
    const auto device = make(order);
    CHECK(device->allocate(100, Placement::Private)->host() == nullptr);
    const auto shared = device->allocate(100, Placement::Shared);
    REQUIRE(shared->host() != nullptr);
    for (size_t i = 0; i < 100; ++i) REQUIRE(shared->host()[i] == std::byte{0});

    PageMemory pages(16384);
    reinterpret_cast<float*>(pages.data())[3] = 7.0f;
    CHECK_THROWS_AS(device->wrap(pages.data() + 4, 4096), Error);
    const auto wrapped = device->wrap(pages.data(), pages.bytes());
    const auto table = upload(*device, std::vector<uint64_t>{wrapped->address() + 3 * sizeof(float)});
    const auto out = device->allocate(4, Placement::Shared);
    device->use(*wrapped);
    device->dispatch(device->pipeline({"bad", "follow"}, {}), std::vector<Binding>{{table.get()}, {out.get(), 0, true}},
                     nullptr, 0, {}, 32);
    device->wait(device->commit());
    CHECK(*reinterpret_cast<const float*>(out->host()) == 7.0f);
  }
}

TEST_CASE("emulated device: the order that the environment asks for") {
  const char* before = std::getenv("SWIFTLET_EMULATED_ORDER");
  const std::string saved = before ? before : "";
  ::setenv("SWIFTLET_EMULATED_ORDER", "backwards", 1);
  CHECK(emulated_options().order == Order::Backwards);
  CHECK_FALSE(emulated_options().matrix_units);
  ::setenv("SWIFTLET_EMULATED_ORDER", "sideways", 1);
  CHECK_THROWS_AS(emulated_options(), Error);
  ::unsetenv("SWIFTLET_EMULATED_ORDER");
  CHECK(emulated_options().order == Order::Forwards);
  if (before) ::setenv("SWIFTLET_EMULATED_ORDER", saved.c_str(), 1);
}
