#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <set>

#include "experts/host_tier.h"

namespace swiftlet {
namespace {

constexpr size_t kSlots = 4, kSlotBytes = 64;

std::shared_ptr<std::byte> memory() { return {static_cast<std::byte*>(std::malloc(kSlots * kSlotBytes)), std::free}; }

}  // namespace

TEST_CASE("host tier: a copy on loan stays, though a slow copy of the same expert comes meanwhile") {
  HostTier tier(8, 16, memory(), kSlots, kSlotBytes, true);
  std::byte* slow = tier.take();  // expert 0 leaves the device for an expert whose read takes long
  std::byte* copy = tier.take();  // it is asked for, and read from disk
  tier.keep(0, copy, true);
  tier.left_device(0);
  REQUIRE(tier.borrow(0) == copy);  // asked for again
  tier.keep(0, slow, false);

  std::set<std::byte*> others;
  while (std::byte* slot = tier.take()) others.insert(slot);
  CHECK(others.size() == kSlots - 1);
  CHECK_FALSE(others.contains(copy));

  tier.keep(0, copy, true);
  tier.left_device(0);
  CHECK(tier.take() == copy);
  CHECK(tier.take() == nullptr);
  CHECK(tier.borrow(0) == nullptr);
}

}  // namespace swiftlet
