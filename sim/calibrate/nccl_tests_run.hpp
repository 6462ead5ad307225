// One run of an nccl-tests program while it is read: its ranks, its rows, and what collective they are of.
//
// Used by nccl_tests_text.cpp and nccl_tests_json.cpp alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/measurements.hpp"

namespace foreshard::sim {

/// One half of a row.
struct NcclTestsTime {
  double us = 0;
  double algorithm_gb_per_s = 0;
  double bus_gb_per_s = 0;
};

struct NcclTestsRow {
  std::string place;  ///< "file line 12"
  Bytes bytes = 0;
  std::string operation;  ///< the redop column: "sum", "none"; empty in tables that lack it
  std::string type;       ///< the type column: "float", "bfloat16", "half"; empty in tables that lack it
  std::optional<NcclTestsTime> out_of_place;
  std::optional<NcclTestsTime> in_place;
};

struct NcclTestsRun {
  std::string program;                         ///< "all_gather_perf"; empty where the header does not say
  std::map<std::string, std::uint32_t> hosts;  ///< ranks of group 0 on each host
  std::string gpu;
  std::vector<NcclTestsRow> rows;
};

/// Adds a run's rows to `out`, by options.transport. `where` is the file's name: it may say the collective.
[[nodiscard]] Result<void> add_run(const NcclTestsRun& run, std::string_view where, const ReadOptions& options,
                                   Measurements& out);

}  // namespace foreshard::sim
