// Published and measured times of collectives, held against their prices.
//
// Who: tests/sim/collectives, cli's accuracy and docs/collectives.md's tables. The rows are
// docs/data/published_collectives.csv, compiled in; each names its source. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/collectives/collective_cost.hpp"

namespace foreshard::accuracy {

struct PublishedCollective {
  std::string table;    ///< "simai", "megatron", …: rows of one source
  std::string machine;  ///< name of the profile it is held against
  bool nvls = false;    ///< the machine had NVLink SHARP on
  sim::CollectiveRequest request;
  double us = 0;
  std::string source;
};
[[nodiscard]] std::span<const PublishedCollective> published_collectives();

struct CollectiveCheck {
  sim::CollectiveRequest request;
  double measured_us = 0;
  double predicted_us = 0;
  std::string path;
  std::string from;  ///< the published table, or what was left out of the profile
  [[nodiscard]] double error() const { return predicted_us / measured_us - 1; }
};

/// The rows of `table` (all for "") that are for a machine of this profile's name, priced by it with the row's
/// switch for NVLS.
[[nodiscard]] std::vector<CollectiveCheck> check_published(const sim::MachineProfile& machine,
                                                           std::string_view table = {});

/// What of a profile's own tables is left out before its points are predicted.
enum class LeaveOut : std::uint8_t {
  nothing = 0,  ///< the model and all measurements: 0 error at measured points
  size = 1,     ///< the point itself
  table = 2,    ///< the whole table it is in (other rank counts stay)
  all = 3,      ///< every table: the mechanisms alone
};
/// The points of a profile's tables as benchmarks measure them (CollectivePrice::period) against their prediction.
[[nodiscard]] std::vector<CollectiveCheck> check_tables(const sim::MachineProfile& machine, LeaveOut left_out);

/// Mean and largest absolute error.
struct CheckSummary {
  double mean = 0;
  double worst = 0;
  std::size_t rows = 0;
};
[[nodiscard]] CheckSummary summarise(std::span<const CollectiveCheck> checks);

}  // namespace foreshard::accuracy
