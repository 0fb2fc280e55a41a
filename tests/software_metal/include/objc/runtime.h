// What metal-cpp names of the Objective-C runtime; runtime.cpp has the functions.
#pragma once
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct objc_selector* SEL;
typedef struct objc_class* Class;
struct objc_object {
  Class isa;
};
typedef struct objc_object* id;
typedef signed char BOOL;
SEL sel_registerName(const char* name);
Class objc_lookUpClass(const char* name);
void* objc_getProtocol(const char* name);
#ifdef __cplusplus
}
#endif
