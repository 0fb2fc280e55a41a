// swiftlet-bench: how fast kernels, decode, prefill, long contexts and reads of experts are on this machine.
#include <cstdio>
#include <map>
#include <string>

#include "base/error.h"
#include "commands.h"

namespace {

constexpr const char* kUsage = R"(swiftlet-bench COMMAND [CONTAINER.qpack] [options]

  kernels             products with matrices of every codec, beside a plain read of as many bytes
  decode CONTAINER    tokens per second, bytes per second beside a plain read, what streaming costs
  prefill CONTAINER   tokens and floating point operations per second
  context CONTAINER   decode far into a context, with f16 and int8 keys and values
  io CONTAINER        raw reads of experts

All commands
  -r, --repeat N      measurements, of which the median is told (5)
  --json FILE         one JSON object a line for each measurement

kernels, decode, prefill, context
  -t, --threads N     compute threads (as many as the process may use)
  --isa NAME          instruction set: amx, avx512vnni, avx2, neon, reference, .. (the best of this machine)

decode, prefill, context
  -m, --memory SIZE   ceiling of the process, like 4.3GB or 8GiB (what the machine can spare)
  -p, --prompt N      decode, context: tokens before what is measured (128, 512); prefill: lengths (512,2048)
  -n, --decode N      decode, context: tokens of one measurement (64, 8)
  --slots N           the most experts in memory (as many as the ceiling allows)
  --chunk N           tokens of a prefill chunk (as many as memory permits)
  --kv NAME           f16, int8 or f32 (f16; context: f16,int8)
  --io NAME           how experts are read: auto, direct, buffered (auto)
  --io-threads N      reads in flight (8)
  --prefetch NAME     decode: look-ahead, off or on (off)
  --warm NAME         decode, prefill: prefill the text once before, untimed: auto, on, off (auto: if all experts fit)
  --cold              drop the container's files from the page cache first
  --trace FILE        decode: record the routing
  --positions N,..    context: positions (1024,8192,32768)

io
  --io-threads N,..   reads in flight, a thread each (1,2,4,8,16)
  --io NAME,..        direct, buffered (both)
  --seconds S         of one measurement (1)
  --cold              drop the container's files from the page cache before each

kernels
  --codec NAME        of one codec only, like affine4-g64 or bf16
  --rows N, --cols N  of the matrix (4096, 2048)

Tokens come from the container's tokens.json, if it has one (benchmarks/make_synthetic.py writes it), else they are
random.
)";

}  // namespace

int main(int argc, char** argv) {
  using namespace swiftlet::bench;
  const std::map<std::string, void (*)(Arguments&)> commands = {
      {"kernels", kernels}, {"decode", decode}, {"prefill", prefill}, {"context", context}, {"io", io}};
  if (argc < 2) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const std::string name = argv[1];
  try {
    Arguments arguments(argc - 2, argv + 2);
    if (name == "help" || name == "--help" || name == "-h" || arguments.flag("--help") || arguments.flag("-h")) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    const auto command = commands.find(name);
    if (command == commands.end())
      swiftlet::fail(swiftlet::ErrorKind::Input, "unknown command '", name, "'; try --help");
    command->second(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "swiftlet-bench: %s\n", error.what());
    return 1;
  }
}
