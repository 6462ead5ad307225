// What the server shows of a run beyond its records: given by whoever knows the reports (cli), so that a served page is
// the one that a file holds.
//
// Used by Content, which calls these from several threads, one at a time for each run. All are optional.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard::viz {

struct Reports {
  /// The extra pieces of a run's page (viz/pack/page.hpp), and of a comparison's page those of each of its runs.
  std::vector<std::string> extras = {}, compared_extras = {};
  /// One of them, one JSON value; null where the run has nothing to say.
  std::function<std::string(std::string_view name, const Run& run, const std::string& path)> extra = {};
  /// The piece "compare" of two runs.
  std::function<Result<std::string>(const Run& a, const std::string& a_path, const Run& b, const std::string& b_path)>
      comparison = {};
  /// The list's columns beside the name, and a run's cells.
  std::vector<std::string> columns = {};
  std::function<std::vector<std::string>(const Run& run)> row = {};
};

}  // namespace foreshard::viz
