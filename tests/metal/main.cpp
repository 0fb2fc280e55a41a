// Runs the tests, and fails if they left anything behind: a report that no test took, an object that nobody released.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "software_metal.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  int result = context.run();
  if (context.shouldExit()) return result;
  for (const std::string& each : software_metal::take_reports()) {
    std::fprintf(stderr, "not taken by a test: %s\n", each.c_str());
    result = 1;
  }
  for (const auto& [name, count] : software_metal::live_objects()) {
    std::fprintf(stderr, "leaked: %ld %s\n", count, name.c_str());
    result = 1;
  }
  return result;
}
