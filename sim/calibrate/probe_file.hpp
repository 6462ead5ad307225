// Probe files: what a script or `foreshard probe` measured on a machine, one JSON row a measurement (docs/machines.md).
//
// Kinds of rows: an isolated collective ("op": "all_gather", …), a collective and a kernel at once ("op":
// "contention"), a rate ("what": "hbm_copy", …), and what could not be measured ("op": "error", counted). Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/calibrate/measurements.hpp"

namespace foreshard::sim {

/// `root` is an array. Refused (input): a row of no known kind, an unknown key, a missing or impossible value, each
/// with the row's number from 0.
[[nodiscard]] Result<Measurements> read_probe_file(const nlohmann::json& root, std::string_view where);

}  // namespace foreshard::sim
