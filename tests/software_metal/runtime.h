// The little of the Objective-C runtime that metal-cpp needs: objects with a class and a count, methods found by
// selector, autorelease pools.
#pragma once

#include <atomic>
#include <string>
#include <unordered_map>
#include <vector>

namespace software_metal {

// Selectors are unique strings: equal names have equal addresses.
using Selector = const char*;
Selector selector(const std::string& name);

using Method = void (*)();

struct Class {
  std::string name;
  Class* parent = nullptr;
  std::unordered_map<Selector, Method> methods;
};

// The class of that name, made a child of NSObject (class objects: of +NSObject) when it is first named.
Class& class_named(const std::string& name);

struct Object {
  explicit Object(const char* class_name);
  virtual ~Object() = default;
  virtual void dispose() {}  // its last reference went

  Class* is_a;
  std::atomic<int> references{1};
  bool immortal = false;
};

void retain(Object* object);
// Objects without references stay in memory, so that a later message to them can be reported.
void release(Object* object);
Object* autorelease(Object* object);

using AutoreleaseList = std::vector<Object*>;
void push_pool(AutoreleaseList* list);
void pop_pool(AutoreleaseList* list);

// Defines a method: `function` is a lambda without captures, (object, Selector, arguments ..) -> result. A class name
// with a plus names the class object.
template <class Function>
void define(const char* class_name, const char* name, Function function) {
  class_named(class_name).methods[selector(name)] = reinterpret_cast<Method>(+function);
}

// Makes [class alloc] work.
void define_class(const char* class_name, Object* (*make)() = nullptr);

void report(const std::string& what);

// Work on other threads that still holds objects; live_objects() waits for it.
void begin_background();
void end_background();

// The classes' methods, each in the file of that name; called once, before the first class is looked up.
void define_foundation();
void define_device();
void define_commands();

}  // namespace software_metal
