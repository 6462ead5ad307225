// The options as ranges: `sweep` takes the names of `plan`, and lists and ranges of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/options/option_set.hpp"
#include "core/base/error.hpp"
#include "sim/sweep/ranges.hpp"

namespace foreshard::cli {

struct GivenRanges {
  std::vector<Range> ranges;
  /// Values that are a file's text: by setting and value, the file's name as it was given.
  std::map<std::pair<std::string, std::string>, std::string> files;
  std::vector<std::string> repeated;  ///< "batch 2": values that are given again, which make no point of their own
};

class RangeOptions {
 public:
  /// One option a setting, in a help group of its own. `this` must outlive the parsing.
  void add_to(OptionSet& set);

  /// What was given, in the order of the options. An option that was given more than once has all its values.
  [[nodiscard]] Result<GivenRanges> ranges() const;

 private:
  struct Given {
    std::string key;
    bool is_file = false;
    std::vector<std::string> texts;
  };
  std::vector<std::unique_ptr<Given>> given_;
};

}  // namespace foreshard::cli
