// What metal-cpp names of CoreGraphics, for builds without Apple's SDK.
#pragma once
typedef struct CGColorSpace* CGColorSpaceRef;
