// Probe files: what a script or `foreshard probe` measured on a machine, one JSON row a measurement (docs/machines.md).
//
// An array of rows, or a row a line (JSON lines, also with "BENCH " before each, as the benchmarks print them).
// Kinds of rows: an isolated collective ("op": "all_gather", …), a collective and a kernel at once ("op":
// "contention"), a rate ("what": "hbm_copy", …), and what could not be measured ("op": "error", counted). Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/calibrate/measurements.hpp"

namespace foreshard::sim {

/// `root` is an array. Refused (input): a row of no known kind, an unknown key, a missing or impossible value, each
/// with the row's number from 0.
[[nodiscard]] Result<Measurements> read_probe_file(const nlohmann::json& root, std::string_view where);

/// Whether the text has a row a line.
[[nodiscard]] bool looks_like_probe_lines(std::string_view text);

/// Errors name the line. Where lines begin with "BENCH ", others are a launcher's: counted and left out.
[[nodiscard]] Result<Measurements> read_probe_lines(std::string_view text, std::string_view where);

}  // namespace foreshard::sim
