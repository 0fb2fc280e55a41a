// Strings and errors of Foundation.
#pragma once

#include <string>
#include <utility>

#include "runtime.h"

namespace software_metal {

struct String : Object {
  explicit String(std::string value) : Object("NSString"), text(std::move(value)) {}
  std::string text;
};

struct Error : Object {
  explicit Error(std::string value) : Object("NSError"), text(std::move(value)) {}
  std::string text;
};

// Sets an NSError** argument, as methods do that return nil.
inline void set_error(Object** where, const std::string& text) {
  if (where) *where = autorelease(new Error(text));
}

}  // namespace software_metal
