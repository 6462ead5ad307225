#include "core/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace foreshard {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "foreshard: internal error at %s:%d: %s\n  failed: %s\n", file, line, message.c_str(),
               condition);
  std::abort();
}

}  // namespace foreshard
