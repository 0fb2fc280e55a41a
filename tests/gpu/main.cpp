// Runs the tests of the kernels. With --coverage, also fails when a kernel of metal/ was run by none of them.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/gpu/emulated/emulated_device.h"

namespace {

int report_untested_kernels() {
  const std::set<std::string> all = swiftlet::gpu::emulated_kernels(), run = swiftlet::gpu::emulated_kernels_run();
  std::vector<std::string> missing;
  std::set_difference(all.begin(), all.end(), run.begin(), run.end(), std::back_inserter(missing));
  for (const std::string& kernel : missing) std::printf("no test runs kernel %s\n", kernel.c_str());
  std::printf("%zu of %zu kernels have tests\n", all.size() - missing.size(), all.size());
  return missing.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool coverage = std::any_of(argv, argv + argc, [](std::string_view a) { return a == "--coverage"; });
  doctest::Context context(argc, argv);
  const int failed = context.run();
  return coverage && !failed && !context.shouldExit() ? report_untested_kernels() : failed;
}
