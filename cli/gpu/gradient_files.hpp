// Gradients of a run as files that a script can read: FOLDER/rank<r>.bin with the numbers one behind the other, as the
// GPU had them, and FOLDER/rank<r>.json that says which is which: [{"step", "parameter", "dtype", "first", "numel",
// "offset"}], `first` a flat index in the whole parameter, `offset` a byte in the .bin.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cli/terminal/output.hpp"
#include "core/base/error.hpp"
#include "core/step/values.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::cli {

class GradientFiles {
 public:
  /// Makes `folder`. `workload` outlives this.
  GradientFiles(const std::string& folder, std::uint32_t rank, const Workload& workload);
  void add(std::int32_t step, const ShardedGradient& gradient, std::span<const char> bytes);
  /// Errors: whatever could not be written.
  [[nodiscard]] Result<void> finish();

 private:
  std::string stem_;
  std::vector<std::string> names_;  // by ParameterId
  std::ofstream numbers_;
  Json index_ = Json::array();
  Bytes offset_ = 0;
};

}  // namespace foreshard::cli
