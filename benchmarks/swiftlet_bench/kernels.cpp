// Products with weight matrices of every codec: weight bytes and floating point operations a second, beside a plain
// read of as many bytes by as many threads.
//
// Each product takes the next of many copies of the matrix, so that one token finds its weights in memory and not in a
// cache. Products and reads take turns. With one thread the clock is that of the processor time used, so that other
// programs disturb it less.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "backend/cpu/blocks.h"
#include "backend/cpu/isa.h"
#include "base/error.h"
#include "commands.h"
#include "measure.h"
#include "plain_read.h"
#include "report.h"

namespace swiftlet::bench {
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
constexpr int kTokens[] = {1, 4, 32, kTokenTile};
constexpr size_t kCopiesBytes = size_t(256) << 20;  // of all copies together: more than any last-level cache
constexpr double kSampleSeconds = 0.03;             // the least that a sample takes

template <class Body>
double seconds_of(const ThreadPool& pool, const Body& body) {
  const auto time = [&] { return pool.threads() == 1 ? double(std::clock()) / CLOCKS_PER_SEC : now(); };
  const double start = time();
  body();
  return time() - start;
}

Matrix describe(const NamedCodec& codec, int64_t rows, int64_t cols) {
  Matrix w{.codec = codec.codec, .dtype = codec.dtype, .bits = codec.bits, .group_size = codec.group_size};
  w.rows = rows;
  w.cols = cols;
  w.scales_offset = uint64_t(rows) * w.weight_row_bytes();
  w.biases_offset = w.scales_offset + uint64_t(rows) * w.scale_row_bytes();
  return w;
}

Series measure(Cpu& cpu, PlainRead& plain, Matrix w, const PageMemory& copies, size_t bytes, int tokens, int repeat) {
  const std::vector<float> x(size_t(tokens * w.cols), 0.5f);
  std::vector<float> y(size_t(tokens * w.rows));
  size_t copy = 0;
  const auto multiply = [&](int times) {
    for (int i = 0; i < times; ++i) {
      w.base = copies.data() + (copy++ % (copies.bytes() / bytes)) * bytes;
      project(cpu, {{&w, y.data(), w.rows}}, x.data(), w.cols, tokens);
    }
  };
  const double once = std::max(1e-6, seconds_of(cpu.pool, [&] { multiply(1); }));
  const int times = std::max(1, int(kSampleSeconds / once));
  Series series;
  for (int i = 0; i < repeat; ++i) {
    const double seconds = seconds_of(cpu.pool, [&] { multiply(times); });
    const double rate = double(bytes) * times / seconds;
    uint64_t read = 0;
    const double read_seconds = seconds_of(cpu.pool, [&] { read = plain.read(bytes * size_t(times)); });
    const double read_rate = double(read) / read_seconds;
    series.add("gb_per_second", rate / 1e9);
    series.add("plain_read_gb_per_second", read_rate / 1e9);
    series.add("of_plain_read", rate / read_rate);
    series.add("gflop_per_second", 2e-9 * double(w.rows) * double(w.cols) * tokens * times / seconds);
  }
  return series;
}

}  // namespace

void kernels(Arguments& arguments) {
  const int repeat = int(arguments.number("--repeat", 5, 1, 1000));
  const int threads = int(arguments.number("--threads", available_cpus(), 1, 1024));
  const std::string isa = arguments.isa();
  const int64_t rows = arguments.number("--rows", 4096, 1, 1 << 20);
  const int64_t cols = arguments.number("--cols", 2048, 128, 1 << 20);
  std::vector<std::string> names;
  for (const NamedCodec& codec : kCodecs) names.emplace_back(codec.name);
  names = arguments.choices("--codec", names);
  const std::string json = arguments.text("--json", "");
  arguments.done();
  if (cols % 128 != 0) fail(ErrorKind::Input, "--cols is ", cols, ", but must be a multiple of 128");

  Report report(json, {{"command", "kernels"}, {"isa", isa}, {"threads", threads}, {"rows", rows}, {"cols", cols}});
  ModelConfig config;
  config.hidden_size = cols;
  Cpu cpu{config, ops_for(isa), ThreadPool(threads)};
  const PageMemory packed(size_t(packed_bytes(cols) * std::ranges::max(kTokens)));
  cpu.scratch.packed = packed.data();
  PlainRead plain(cpu.pool);
  std::printf("%d threads, %s, medians of %d\n%-12s %6s %10s %13s %10s %10s\n", threads, isa.c_str(), repeat, "codec",
              "tokens", "GB/s", "plain read", "of that", "GFLOP/s");
  for (const NamedCodec& codec : kCodecs) {
    if (std::ranges::find(names, codec.name) == names.end()) continue;
    Matrix w = describe(codec, rows, cols);
    w.interleaved = in_integers(cpu, w);  // all words are the same in whatever order
    const size_t bytes = w.biases_offset + (w.codec == Codec::Affine ? uint64_t(rows) * w.scale_row_bytes() : 0);
    const PageMemory copies(std::max<size_t>(1, kCopiesBytes / bytes) * bytes, /*huge_pages=*/true);
    // Every 16-bit word is 0x3f2a: a float of ordinary size in each of the formats, so that nothing is subnormal.
    std::fill_n(reinterpret_cast<uint16_t*>(copies.data()), copies.bytes() / 2, uint16_t(0x3f2a));
    for (const int tokens : kTokens) {
      const Series series = measure(cpu, plain, w, copies, bytes, tokens, repeat);
      Json result = {{"codec", codec.name}, {"tokens", tokens}, {"bytes", bytes}, {"repeat", repeat}};
      result.update(series.json());
      report.add(result);
      std::printf("%-12s %6d %10.2f %13.2f %10.2f %10.1f\n", codec.name, tokens, series.median("gb_per_second"),
                  series.median("plain_read_gb_per_second"), series.median("of_plain_read"),
                  series.median("gflop_per_second"));
      std::fflush(stdout);
    }
  }
}

}  // namespace swiftlet::bench
