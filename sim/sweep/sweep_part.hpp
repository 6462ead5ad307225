// One part of a sweep as a file: what one of several tasks found of its share of the points.
//
// Who: cli's sweep writes and reads them (cli/options/part_options.hpp). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/parallel/part_file.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

/// What `points` has of `part`; settings and values follow from a point's place.
[[nodiscard]] std::string sweep_part_text(const Part& part, const std::string& fingerprint,
                                          const std::vector<SweepPoint>& points);
/// Errors: read_part()'s.
[[nodiscard]] Result<PartFile<SweepPoint>> parse_sweep_part(std::string_view text, const std::string& where);

}  // namespace foreshard::sim
