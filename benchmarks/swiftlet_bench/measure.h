// Clocks, and what repeated measurements come to.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report.h"

namespace swiftlet::bench {

double now();          // seconds of a steady clock
double cpu_seconds();  // processor time of this process, all threads together: other programs disturb it little

// How many cores other programs kept busy since this was made, without which no time can be trusted. Nothing where the
// system does not say, or after less than a few clock ticks.
class OthersBusy {
 public:
  OthersBusy();
  std::optional<double> cores() const;

 private:
  double start_, others_;
};

// Figures of a measurement that was repeated: under each name as many values as repeats had that figure, in order.
class Series {
 public:
  void add(const std::string& name, double value);
  void add(const std::string& name, std::optional<double> value);
  double median(const std::string& name) const;
  Json json() const;  // {name: {"median", "min", "max", "samples"}}
  // A table: a line a figure, under a heading.
  void print(const std::string& heading) const;

 private:
  std::vector<std::pair<std::string, std::vector<double>>> figures_;  // in the order in which they came first
};

}  // namespace swiftlet::bench
