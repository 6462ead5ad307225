// FORESHARD_CHECK: an always-on assertion for our own bugs. Prints the condition, the place and the
// message to stderr and aborts. Never use it for wrong input (error.hpp).
#pragma once

#include <string>

namespace foreshard {

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);

}  // namespace foreshard

#define FORESHARD_CHECK(condition, message)                                 \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::foreshard::check_failed(#condition, __FILE__, __LINE__, (message)); \
  } while (false)
