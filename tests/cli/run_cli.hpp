// Knocks at the front door without a process: arguments in, status and both streams out.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli/front_door.hpp"

namespace foreshard::cli {

struct Answer {
  int status = 0;
  std::string out;
  std::string err;
};

inline Answer run_cli(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  Console console{out, err};
  const int status = run(arguments, console);
  return {status, out.str(), err.str()};
}

}  // namespace foreshard::cli
