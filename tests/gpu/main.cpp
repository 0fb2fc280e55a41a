// Runs the tests of the kernels. Two options beside those of doctest:
//   --coverage         fails when a kernel of metal/ was run by no test
//   --pipelines FILE   writes which kernels ran with which function constants, for tools/msl/nvrtc.py
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "backend/gpu/emulated/emulated_device.h"

namespace {

int report_untested_kernels() {
  std::set<std::string> untested = swiftlet::gpu::emulated_kernels();
  const size_t all = untested.size();
  for (const std::string& pipeline : swiftlet::gpu::emulated_pipelines_run())
    untested.erase(pipeline.substr(0, pipeline.find(' ')));
  for (const std::string& kernel : untested) std::printf("no test runs kernel %s\n", kernel.c_str());
  std::printf("%zu of %zu kernels have tests\n", all - untested.size(), all);
  return untested.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  int failed = context.run();
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--coverage" && report_untested_kernels()) failed = 1;
    if (option == "--pipelines" && i + 1 < argc) {
      std::ofstream file(argv[i + 1]);
      for (const std::string& pipeline : swiftlet::gpu::emulated_pipelines_run()) file << pipeline << "\n";
    }
  }
  return failed;
}
