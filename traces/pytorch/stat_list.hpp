// Counts odd but usable things while a file is read; the order is that of first appearance.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard::traces {

class StatList {
 public:
  /// Adds to the count named `name`. Severity and text are those of the first call.
  void add(std::string_view name, ImportStat::Severity severity, std::string_view text, std::uint64_t count = 1) {
    if (count == 0) return;
    for (ImportStat& stat : stats_) {
      if (stat.name != name) continue;
      stat.count += count;
      return;
    }
    stats_.push_back({std::string(name), severity, count, std::string(text)});
  }
  [[nodiscard]] std::vector<ImportStat> take() { return std::move(stats_); }

 private:
  std::vector<ImportStat> stats_;
};

}  // namespace foreshard::traces
