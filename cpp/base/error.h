// Errors: one exception type with a kind, and a way to write its message in one line.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace swiftlet {

enum class ErrorKind {
  Input,      // an argument or a prompt: the caller can fix it
  Container,  // a file that is missing, damaged, contradictory or of an unknown kind
  Memory,     // the ceiling cannot hold what is asked
  Io,         // a read that failed while running
  Numeric,    // NaN or infinity where a number should be
  Cancelled,  // stopped by the caller
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Throws an Error whose message is the parts, one after the other.
template <class... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(kind, message.str());
}

}  // namespace swiftlet
