// What metal-cpp names of IOSurface, for builds without Apple's SDK.
#pragma once
typedef struct __IOSurface* IOSurfaceRef;
