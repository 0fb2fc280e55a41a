// Runs the tests, and fails if they left an object behind that nobody released.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // the emulation catches the faults of kernels
#include <doctest/doctest.h>

#include <cstdio>

#include "software_metal.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  int result = context.run();
  if (context.shouldExit()) return result;
  for (const auto& [name, count] : software_metal::live_objects()) {
    std::fprintf(stderr, "leaked: %ld %s\n", count, name.c_str());
    result = 1;
  }
  return result;
}
