#include "measure.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace swiftlet::bench {
namespace {

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Seconds of processor time of all programs but this one since the machine started; NaN where the system does not say.
double others_seconds() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  double user, nice, system, idle, wait, interrupt, soft, steal;
  if (!(file >> cpu >> user >> nice >> system >> idle >> wait >> interrupt >> soft >> steal)) return NAN;
  return (user + nice + system + interrupt + soft + steal) / double(sysconf(_SC_CLK_TCK)) - cpu_seconds();
}

}  // namespace

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double cpu_seconds() {
  rusage own;
  getrusage(RUSAGE_SELF, &own);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(own.ru_utime) + seconds(own.ru_stime);
}

OthersBusy::OthersBusy() : start_(now()), others_(others_seconds()) {}

std::optional<double> OthersBusy::cores() const {
  const double seconds = now() - start_, busy = others_seconds() - others_;
  if (seconds < 0.1 || std::isnan(busy)) return std::nullopt;
  return std::max(0.0, busy / seconds);
}

void Series::add(const std::string& name, double value) {
  auto at = std::ranges::find(figures_, name, &std::pair<std::string, std::vector<double>>::first);
  if (at == figures_.end()) at = figures_.insert(at, {name, {}});
  at->second.push_back(value);
}

void Series::add(const std::string& name, std::optional<double> value) {
  if (value) add(name, *value);
}

double Series::median(const std::string& name) const {
  return median_of(std::ranges::find(figures_, name, &std::pair<std::string, std::vector<double>>::first)->second);
}

Json Series::json() const {
  Json all = Json::object();
  for (const auto& [name, values] : figures_)
    all[name] = {{"median", median_of(values)},
                 {"min", std::ranges::min(values)},
                 {"max", std::ranges::max(values)},
                 {"samples", values}};
  return all;
}

void Series::print(const std::string& heading) const {
  std::printf("%-50s %10s %10s %10s\n", heading.c_str(), "median", "min", "max");
  for (const auto& [name, values] : figures_)
    std::printf("  %-48s %10.4g %10.4g %10.4g\n", name.c_str(), median_of(values), std::ranges::min(values),
                std::ranges::max(values));
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace swiftlet::bench
