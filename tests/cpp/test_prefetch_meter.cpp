#include <doctest/doctest.h>

#include "engine/prefetch_meter.h"

using namespace swiftlet;

namespace {

// Decodes `tokens` tokens that cost `with` or `without` seconds; the share decoded with guesses.
double share_on(PrefetchMeter& meter, double with, double without, int tokens) {
  int on = 0;
  for (int i = 0; i < tokens; i++) {
    on += meter.on();
    meter.decoded(meter.on() ? with : without, true);
  }
  return double(on) / tokens;
}

constexpr int kTrial = PrefetchMeter::kBlock * PrefetchMeter::kBlocks;

}  // namespace

TEST_CASE("prefetch meter: off and on are what they say") {
  PrefetchMeter off(Prefetch::Off), on(Prefetch::On);
  CHECK(share_on(off, 1, 2, 1000) == 0);
  CHECK(share_on(on, 2, 1, 1000) == 1);
}

TEST_CASE("prefetch meter: keeps what pays, drops what does not") {
  PrefetchMeter meter(Prefetch::Auto);
  CHECK(share_on(meter, .8, 1, kTrial) == doctest::Approx(.5));  // both ways, by turns
  CHECK(share_on(meter, .8, 1, PrefetchMeter::kHold) == 1);
  PrefetchMeter loser(Prefetch::Auto);
  share_on(loser, 1.01, 1, kTrial);
  CHECK(share_on(loser, 1.01, 1, PrefetchMeter::kHold) == 0);
  PrefetchMeter even(Prefetch::Auto);  // a gain too small to be sure of
  share_on(even, .99, 1, kTrial);
  CHECK(share_on(even, .99, 1, PrefetchMeter::kHold) == 0);
}

TEST_CASE("prefetch meter: tries again later") {
  PrefetchMeter meter(Prefetch::Auto);
  share_on(meter, 1.2, 1, kTrial + PrefetchMeter::kHold);
  share_on(meter, .8, 1, kTrial);
  CHECK(share_on(meter, .8, 1, PrefetchMeter::kHold) == 1);
}

TEST_CASE("prefetch meter: no guesses while everything is resident, and no opinion") {
  PrefetchMeter meter(Prefetch::Auto);
  share_on(meter, .8, 1, PrefetchMeter::kBlock + 1);  // within a block with guesses
  REQUIRE(meter.on());
  for (int i = 0; i < 1000; i++) {
    meter.decoded(100, false);
    CHECK(!meter.on());
  }
  meter.decoded(100, true);  // was decoded without guesses
  CHECK(meter.on());
  share_on(meter, .8, 1, kTrial - PrefetchMeter::kBlock - 1);
  CHECK(share_on(meter, .8, 1, PrefetchMeter::kHold) == 1);

  PrefetchMeter on(Prefetch::On);
  on.decoded(1, false);
  CHECK(on.on());
}
