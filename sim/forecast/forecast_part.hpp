// One part of a forecast's seeds as a file: what became of the processes that one of several tasks ran.
//
// Who: cli's forecast writes and reads them (cli/options/part_options.hpp). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/parallel/part_file.hpp"

namespace foreshard::sim {

/// What `seeds` has of `part`, every step's memory with it; which seed each is follows from its place.
[[nodiscard]] std::string forecast_part_text(const Part& part, const std::string& fingerprint,
                                             const std::vector<SeedForecast>& seeds);
/// Errors: read_part()'s.
[[nodiscard]] Result<PartFile<SeedForecast>> parse_forecast_part(std::string_view text, const std::string& where);

}  // namespace foreshard::sim
