// A Metal in software, for tests of code that was written against Apple's: the entry points of the Objective-C runtime
// that metal-cpp calls, and behind them a device that compiles shaders with tools/msl and runs them on the CPU.
//
// It is stricter than Apple's validation layer. What it finds wrong it reports here and goes on as well as it can, so
// that a test can see several things in one process:
//   messages to released objects, selectors that do not exist, objects that need an autorelease pool and have none,
//   arguments that were not bound, dispatches that need a barrier, encoders left open, buffers that a kernel reaches
//   without having been told of, buffers released too early, limits of Metal.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace software_metal {

// What was reported since the last call, in order. From any thread. A program that ends with reports that were not
// taken ends with exit status 70. With SOFTWARE_METAL_LEAKS in the environment what is alive at its end is reported
// too.
std::vector<std::string> take_reports();

// Objects that were made and not released yet, by class; the device, which lives forever, is not counted.
std::map<std::string, long> live_objects();

}  // namespace software_metal
