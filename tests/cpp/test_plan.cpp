#include <doctest/doctest.h>

#include "base/error.h"
#include "engine/plan.h"

using namespace swiftlet;

namespace {

constexpr uint64_t MB = 1000000, GB = 1000 * MB;

// About the shape of the 35B model.
PlanInput input(uint64_t ceiling) {
  PlanInput in;
  in.ceiling = ceiling;
  in.available = 16 * GB;
  in.process = 80 * MB;
  in.resident = 1100 * MB;
  in.state_fixed = 66 * MB;
  in.state_per_token = 20480;
  in.max_context = 262144;
  in.scratch = [](int chunk) { return 8 * MB + uint64_t(chunk) * 30000; };
  in.slot = 1769472;
  in.experts = 40 * 256;
  in.experts_per_tok = 8;
  return in;
}

uint64_t sum(const MemoryPlan& p) {
  return p.process + p.overhead + p.resident + p.state + p.snapshots + p.scratch + p.pool;
}

}  // namespace

TEST_CASE("plan: the pool takes what is left and never more") {
  for (const uint64_t ceiling : {1600 * MB, 2400 * MB, 4 * GB, 8 * GB, 19 * GB}) {
    const MemoryPlan p = make_plan(input(ceiling));
    CHECK(sum(p) <= ceiling);
    CHECK(sum(p) + p.slot > ceiling);  // one more slot would not fit
    CHECK(p.pool == p.slots * p.slot);
  }
}

TEST_CASE("plan: a pool is never larger than the model") {
  const MemoryPlan p = make_plan(input(64 * GB));
  CHECK(p.slots == p.experts);
  CHECK(p.chunk == 2048);
}

TEST_CASE("plan: host memory is whole slots, beside the ceiling, and no more than there is or than is of use") {
  PlanInput in = input(4 * GB);
  const MemoryPlan without = make_plan(in);
  in.host = 10 * GB;
  in.host_available = 30 * GB;
  in.host_least_slots = 16;
  const MemoryPlan p = make_plan(in);
  CHECK(p.host == p.host_slots * p.slot);
  CHECK(p.host <= in.host);
  CHECK(p.host + p.slot > in.host);
  CHECK(p.pool == without.pool);
  CHECK(without.host == 0);
  in.host = 100 * GB;
  CHECK(make_plan(in).host_slots == in.experts + in.host_least_slots);
  in.host_available = 10 * GB;
  CHECK_THROWS_AS(make_plan(in), Error);
  in.host = 15 * in.slot;
  CHECK_THROWS_AS(make_plan(in), Error);
}

TEST_CASE("plan: snapshots get a small part, or what was asked for") {
  const PlanInput in = input(4 * GB);
  const MemoryPlan p = make_plan(in);
  CHECK(p.snapshots >= 2 * in.state_fixed);
  CHECK(p.snapshots <= (p.ceiling - p.smallest) / 8);
  CHECK(make_plan(input(p.smallest)).snapshots == 0);
  CHECK(make_plan(input(64 * GB)).snapshots == 4 * p.state);

  PlanInput asked = in;
  asked.snapshots = 500 * MB;
  const MemoryPlan q = make_plan(asked);
  CHECK(q.snapshots == 500 * MB);
  CHECK(q.smallest == p.smallest + 500 * MB);
  asked.ceiling = q.smallest;
  CHECK(make_plan(asked).slots == 8);
  asked.snapshots = 0;
  CHECK(make_plan(asked).snapshots == 0);
}

TEST_CASE("plan: the smallest ceiling works, one byte less does not") {
  const uint64_t smallest = make_plan(input(4 * GB)).smallest;
  CHECK(make_plan(input(smallest)).slots == 8);
  try {
    make_plan(input(smallest - 1));
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Memory);
    CHECK(std::string(e.what()).find(format_bytes(smallest)) != std::string::npos);
  }
}

TEST_CASE("plan: chunks shrink with memory and are obeyed when asked for") {
  CHECK(make_plan(input(1500 * MB)).chunk < make_plan(input(8 * GB)).chunk);
  PlanInput in = input(4 * GB);
  in.chunk = 7;
  CHECK(make_plan(in).chunk == 7);
}

TEST_CASE("plan: context") {
  PlanInput in = input(4 * GB);
  CHECK(make_plan(in).context == 8192);
  in.context = 32768;
  CHECK(make_plan(in).state == in.state_fixed + 32768 * in.state_per_token);
  for (const int64_t wrong : {int64_t(-1), in.max_context + 1}) {
    in.context = wrong;
    CHECK_THROWS_AS(make_plan(in), Error);
  }
}

TEST_CASE("plan: without a ceiling the system keeps its share") {
  PlanInput in = input(0);
  const MemoryPlan p = make_plan(in);
  CHECK(p.ceiling <= in.process + in.available - in.available / 4);
  CHECK(p.slots > 1000);
  in.available = 100 * MB;  // less than the model needs: the least that works, not an error
  CHECK(make_plan(in).ceiling == make_plan(in).smallest);
}

TEST_CASE("plan: a bound on slots") {
  PlanInput in = input(8 * GB);
  in.max_slots = 8;
  CHECK(make_plan(in).slots == 8);
  in.max_slots = 7;
  CHECK_THROWS_AS(make_plan(in), Error);
}
