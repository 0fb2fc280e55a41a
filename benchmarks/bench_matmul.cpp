// Speed of the matmul kernels: weight bytes and floating point operations a second, beside a plain read of as many
// bytes.
//
//   bench_matmul [--isa auto] [--threads 1] [--rows 4096] [--cols 2048] [--codec NAME] [--seconds 0.2]
//
// One JSON object a line: {"codec", "tokens", "isa", "threads", "rows", "cols", "gb_s", "read_gb_s", "gflop_s"}. Each
// figure is that of the best of many short runs, each over another copy of the matrix, so that one token finds its
// weights in memory and not in a cache. Reads and kernels take turns, so that both see the same machine. With one
// thread the clock is that of the processor time used, so that other programs disturb it less.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/thread_pool.h"
#include "base/error.h"

using namespace swiftlet;

namespace {

struct NamedCodec {
  const char* name;
  Codec codec;
  DType dtype;
  int bits, group_size;
};

constexpr NamedCodec kCodecs[] = {
    {"affine2-g64", Codec::Affine, DType::BF16, 2, 64},
    {"affine3-g64", Codec::Affine, DType::BF16, 3, 64},
    {"affine4-g32", Codec::Affine, DType::BF16, 4, 32},
    {"affine4-g64", Codec::Affine, DType::BF16, 4, 64},
    {"affine4-g128", Codec::Affine, DType::BF16, 4, 128},
    {"affine5-g64", Codec::Affine, DType::BF16, 5, 64},
    {"affine6-g64", Codec::Affine, DType::BF16, 6, 64},
    {"affine8-g64", Codec::Affine, DType::BF16, 8, 64},
    {"mxfp4", Codec::MxFp4, DType::U8, 4, 32},
    {"mxfp8", Codec::MxFp8, DType::U8, 8, 32},
    {"nvfp4", Codec::NvFp4, DType::U8, 4, 16},
    {"bf16", Codec::Plain, DType::BF16, 16, 0},
    {"f16", Codec::Plain, DType::F16, 16, 0},
    {"f32", Codec::Plain, DType::F32, 32, 0},
};
constexpr int kTokens[] = {1, 4, 64, 512};
constexpr size_t kCacheBytes = size_t(256) << 20;  // of all copies together: more than any last-level cache

struct Options {
  std::string isa = "auto", codec;
  int threads = 1;
  int64_t rows = 4096, cols = 2048;
  double seconds = 0.2;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) fail(ErrorKind::Input, name, " needs a value");
    const char* value = argv[i + 1];
    if (name == "--isa")
      options.isa = value;
    else if (name == "--codec")
      options.codec = value;
    else if (name == "--threads")
      options.threads = std::atoi(value);
    else if (name == "--rows")
      options.rows = std::atoll(value);
    else if (name == "--cols")
      options.cols = std::atoll(value);
    else if (name == "--seconds")
      options.seconds = std::atof(value);
    else
      fail(ErrorKind::Input, "unknown option ", name);
  }
  if (options.rows < 1 || options.cols < 128 || options.cols % 128 != 0)
    fail(ErrorKind::Input, "--rows must be positive and --cols a multiple of 128");
  return options;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class Body>
double seconds_of(const ThreadPool& pool, const Body& body) {
  const auto time = [&] { return pool.threads() == 1 ? double(std::clock()) / CLOCKS_PER_SEC : now(); };
  const double start = time();
  body();
  return time() - start;
}

volatile uint64_t sink;  // keeps the reads alive

void read_bytes(const std::byte* bytes, size_t count) {
  uint64_t sums[16] = {};
  for (size_t i = 0; i + sizeof(sums) <= count; i += sizeof(sums)) {
    uint64_t words[16];
    std::memcpy(words, bytes + i, sizeof(sums));
    for (int j = 0; j < 16; ++j) sums[j] ^= words[j];
  }
  for (const uint64_t sum : sums) sink = sink ^ sum;
}

void bench(const NamedCodec& codec, const Options& options, ThreadPool& pool) {
  Matrix w;
  w.codec = codec.codec;
  w.dtype = codec.dtype;
  w.bits = codec.bits;
  w.group_size = codec.group_size;
  w.rows = options.rows;
  w.cols = options.cols;
  w.scales_offset = uint64_t(w.rows) * w.weight_row_bytes();
  w.biases_offset = w.scales_offset + uint64_t(w.rows) * w.scale_row_bytes();
  const size_t bytes = w.biases_offset + (w.codec == Codec::Affine ? uint64_t(w.rows) * w.scale_row_bytes() : 0);
  const size_t copies = std::max<size_t>(1, kCacheBytes / bytes);

  // Every 16-bit word is 0x3f2a: a float of ordinary size in each of the formats, so that nothing is subnormal.
  std::vector<uint16_t> memory(copies * bytes / 2, 0x3f2a);
  const auto* base = reinterpret_cast<const std::byte*>(memory.data());
  const MatmulFn matmul = matmul_for(options.isa);

  for (const int tokens : kTokens) {
    std::vector<float> x(size_t(tokens * w.cols), 0.5f), y(size_t(tokens * w.rows));
    double best = 1e30, best_read = 1e30;
    size_t copy = 0;
    for (const double start = now(); now() - start < options.seconds;) {
      w.base = base + (copy++ % copies) * bytes;
      best = std::min(best, seconds_of(pool, [&] {
                        pool.parallel_for(w.rows, 64, [&](int64_t begin, int64_t end) {
                          matmul(w, x.data(), w.cols, tokens, y.data(), w.rows, begin, end);
                        });
                      }));
      const std::byte* other = base + (copy++ % copies) * bytes;
      best_read = std::min(best_read, seconds_of(pool, [&] {
                             pool.parallel_for(int64_t(bytes), 1 << 14, [&](int64_t begin, int64_t end) {
                               read_bytes(other + begin, size_t(end - begin));
                             });
                           }));
    }
    std::printf(
        "{\"codec\": \"%s\", \"tokens\": %d, \"isa\": \"%s\", \"threads\": %d, \"rows\": %lld, \"cols\": %lld, "
        "\"gb_s\": %.2f, \"read_gb_s\": %.2f, \"gflop_s\": %.1f}\n",
        codec.name, tokens, options.isa.c_str(), pool.threads(), static_cast<long long>(w.rows),
        static_cast<long long>(w.cols), double(bytes) / best / 1e9, double(bytes) / best_read / 1e9,
        2e-9 * double(w.rows) * double(w.cols) * tokens / best);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    ThreadPool pool(options.threads);
    for (const NamedCodec& codec : kCodecs)
      if (options.codec.empty() || options.codec == codec.name) bench(codec, options, pool);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_matmul: %s\n", error.what());
    return 1;
  }
}
