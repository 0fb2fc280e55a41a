// Raw reads of experts: what the disk can give, by the number of reads in flight.
#include "base/error.h"
#include "commands.h"
#include "experts/io_bench.h"
#include "workload.h"

namespace swiftlet::bench {

void io(Arguments& arguments) {
  const int repeat = int(arguments.number("--repeat", 5, 1, 1000));
  const std::vector<int64_t> depths = arguments.numbers("--io-threads", {1, 2, 4, 8, 16}, 1, 256);
  const std::vector<std::string> ways = arguments.choices("--io", {"direct", "buffered"});
  const double seconds = arguments.seconds("--seconds", 1);
  const std::string json = arguments.text("--json", "");
  const bool cold = arguments.flag("--cold");
  const std::string path = arguments.positional("container");
  arguments.done();
  const Qpack qpack = open_qpack(path);
  Report report(json, {{"command", "io"}, {"container", container_name(path)}});

  for (const std::string& way : ways)
    for (const int64_t depth : depths) {
      Series series;
      bool direct = false;
      for (int i = 0; i < repeat; ++i) {
        if (cold) drop_from_page_cache(path);
        const OthersBusy others;
        const IoBench reads = bench_io(qpack, way == "direct" ? IoMode::Direct : IoMode::Buffered, int(depth), seconds);
        if (reads.reads == 0) fail(ErrorKind::Input, "no read was done in ", seconds, " s: use a longer --seconds");
        series.add("gb_per_second", double(reads.bytes) / reads.seconds / 1e9);
        series.add("reads_per_second", double(reads.reads) / reads.seconds);
        series.add("ms_per_read", 1e3 * reads.seconds * double(depth) / double(reads.reads));
        series.add("others_busy_cores", others.cores());
        direct = reads.direct;
      }
      Json result = {{"io_threads", depth},
                     {"direct_io", direct},
                     {"read_bytes", qpack.max_stride},
                     {"cold", cold},
                     {"repeat", repeat}};
      result.update(series.json());
      report.add(result);
      series.print(std::string(direct ? "direct" : "buffered") + ", " + std::to_string(depth) + " in flight");
    }
}

}  // namespace swiftlet::bench
