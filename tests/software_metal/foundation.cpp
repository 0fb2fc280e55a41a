#include "foundation.h"

namespace software_metal {
namespace {

struct Pool : Object {
  Pool() : Object("NSAutoreleasePool") { push_pool(&objects); }
  void dispose() override { pop_pool(&objects); }
  AutoreleaseList objects;
};

}  // namespace

void define_foundation() {
  define_class("NSString");
  define_class("NSError");
  define_class("NSAutoreleasePool", []() -> Object* { return new Pool; });

  define("NSAutoreleasePool", "drain", [](Object* self, Selector) { release(self); });
  define("+NSString", "stringWithCString:encoding:", [](Object*, Selector, const char* text, size_t) -> Object* {
    return autorelease(new String(text));
  });
  define("NSString", "UTF8String", [](String* self, Selector) -> const char* { return self->text.c_str(); });
  define("NSError", "localizedDescription",
         [](Error* self, Selector) -> Object* { return autorelease(new String(self->text)); });
}

}  // namespace software_metal
