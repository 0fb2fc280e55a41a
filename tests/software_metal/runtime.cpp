#include "runtime.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "software_metal.h"

namespace software_metal {
namespace {

std::mutex g_mutex;  // guards the reports and the census

std::vector<std::string>& reports() {
  static auto& all = *new std::vector<std::string>;
  return all;
}

std::map<std::string, long>& census() {
  static auto& all = *new std::map<std::string, long>;
  return all;
}

std::condition_variable g_idle;
int g_background = 0;  // guarded by g_mutex

void count(const Object& object, long change) {
  const std::string& name = object.is_a->name;
  if (name[0] == '+' || name == "MTLDevice") return;
  const std::lock_guard lock(g_mutex);
  if ((census()[name] += change) == 0) census().erase(name);
}

thread_local std::vector<AutoreleaseList*> t_pools;

// What objc_lookUpClass returns: the object that class methods are sent to.
struct ClassObject : Object {
  ClassObject(const std::string& name, Object* (*make_one)()) : Object(("+" + name).c_str()), make(make_one) {
    immortal = true;
  }
  Object* (*make)();
};

std::map<std::string, ClassObject*>& class_objects() {
  static auto& all = *new std::map<std::string, ClassObject*>;
  return all;
}

Method find(const Class* in, Selector name) {
  for (; in; in = in->parent) {
    const auto found = in->methods.find(name);
    if (found != in->methods.end()) return found->second;
  }
  return nullptr;
}

long answer_nothing() {
  // A result in a floating-point register must be zero as well.
#if defined(__x86_64__)
  asm volatile("xorps %%xmm0, %%xmm0" ::: "xmm0");
#elif defined(__aarch64__)
  asm volatile("movi v0.2d, #0" ::: "v0");
#endif
  return 0;
}

void define_object() {
  define("NSObject", "retain", [](Object* self, Selector) -> Object* {
    retain(self);
    return self;
  });
  define("NSObject", "release", [](Object* self, Selector) { release(self); });
  define("NSObject", "autorelease", [](Object* self, Selector) -> Object* { return autorelease(self); });
  define("NSObject", "init", [](Object* self, Selector) -> Object* { return self; });
  define("NSObject", "respondsToSelector:", [](Object* self, Selector, Selector name) -> bool {
    return find(self->is_a, name) != nullptr;
  });
  define("+NSObject", "alloc", [](ClassObject* self, Selector) -> Object* {
    if (self->make) return self->make();
    report("[" + self->is_a->name.substr(1) + " alloc]: not a class that software Metal can make");
    return nullptr;
  });
}

// A program whose reports nobody took has failed, whatever it thinks. Leaks count where they are asked for: Python
// keeps objects to its end.
void check_at_exit() {
  if (std::getenv("SOFTWARE_METAL_LEAKS"))
    for (const auto& [name, count] : live_objects()) report("leaked: " + std::to_string(count) + " " + name);
  if (reports().empty()) return;
  std::fprintf(stderr, "software metal: %zu reports, see above\n", reports().size());
  std::_Exit(70);
}

void define_everything() {
  static const bool once = [] {
    std::atexit(check_at_exit);
    define_object();
    define_foundation();
    define_device();
    define_commands();
    return true;
  }();
  (void)once;
}

}  // namespace

Selector selector(const std::string& name) {
  static std::mutex mutex;
  static auto& all = *new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return all.insert(name).first->c_str();
}

Class& class_named(const std::string& name) {
  static std::mutex mutex;
  static auto& all = *new std::unordered_map<std::string, std::unique_ptr<Class>>;
  const std::lock_guard lock(mutex);
  const auto made = [&](const std::string& key) -> Class& {
    auto& kept = all[key];
    if (!kept) kept.reset(new Class{key, nullptr, {}});
    return *kept;
  };
  Class& wanted = made(name);
  const std::string root = name[0] == '+' ? "+NSObject" : "NSObject";
  if (!wanted.parent && name != root) wanted.parent = &made(root);
  return wanted;
}

void define_class(const char* class_name, Object* (*make)()) {
  class_objects()[class_name] = new ClassObject(class_name, make);
}

Object::Object(const char* class_name) : is_a(&class_named(class_name)) { count(*this, 1); }

void retain(Object* object) {
  if (object && !object->immortal) ++object->references;
}

void release(Object* object) {
  if (!object || object->immortal || --object->references > 0) return;
  object->dispose();
  count(*object, -1);
}

Object* autorelease(Object* object) {
  if (t_pools.empty()) {
    report(object->is_a->name + " needs an autorelease pool and the thread has none: it leaks");
  } else {
    t_pools.back()->push_back(object);
  }
  return object;
}

void push_pool(AutoreleaseList* list) { t_pools.push_back(list); }

void pop_pool(AutoreleaseList* list) {
  if (t_pools.empty() || t_pools.back() != list) report("autorelease pools released out of order");
  std::erase(t_pools, list);
  for (Object* each : *list) release(each);
  list->clear();
}

void report(const std::string& what) {
  std::fprintf(stderr, "software metal: %s\n", what.c_str());
  const std::lock_guard lock(g_mutex);
  reports().push_back(what);
}

std::vector<std::string> take_reports() {
  const std::lock_guard lock(g_mutex);
  return std::exchange(reports(), {});
}

void begin_background() {
  const std::lock_guard lock(g_mutex);
  ++g_background;
}

void end_background() {
  const std::lock_guard lock(g_mutex);
  --g_background;
  g_idle.notify_all();
}

std::map<std::string, long> live_objects() {
  std::unique_lock lock(g_mutex);
  g_idle.wait(lock, [] { return g_background == 0; });
  return census();
}

// Called by the entry points in message_send.cpp: the function that answers a message.
extern "C" Method software_metal_lookup(Object* receiver, Selector name) {
  const auto nothing = reinterpret_cast<Method>(&answer_nothing);
  if (!receiver) return nothing;
  const std::string full_name = "[" + receiver->is_a->name + " " + name + "]";
  if (receiver->references <= 0) {
    report(full_name + " sent to a released object");
    return nothing;
  }
  if (const Method found = find(receiver->is_a, name)) return found;
  report(full_name + ": no such method");
  return nothing;
}

extern "C" {

const char* sel_registerName(const char* name) { return selector(name); }

Object* objc_lookUpClass(const char* name) {
  define_everything();
  const auto found = class_objects().find(name);
  return found == class_objects().end() ? nullptr : found->second;
}

void* objc_getProtocol(const char*) { return nullptr; }

// metal-cpp's functions that take std::function make blocks of them. We use none of those, and say so if that changes.
void* _NSConcreteStackBlock[32];
void _Block_object_assign(void*, const void*, int) { report("blocks are not supported"); }
void _Block_object_dispose(const void*, int) { report("blocks are not supported"); }
}

}  // namespace software_metal
