// What metal-cpp names of CoreFoundation, for builds without Apple's SDK.
#pragma once
#include <math.h>
#include <stdint.h>
typedef double CFTimeInterval;
typedef const void* CFTypeRef;
