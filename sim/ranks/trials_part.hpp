// One part of a job's trials as a file: what one of several tasks drew and simulated.
//
// Who: cli's plan writes and reads them (cli/options/part_options.hpp). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/parallel/part_file.hpp"
#include "sim/ranks/trials.hpp"

namespace foreshard::sim {

[[nodiscard]] std::string trials_part_text(const Part& part, const std::string& fingerprint,
                                           const std::vector<Trial>& trials);
/// Errors: read_part()'s.
[[nodiscard]] Result<PartFile<Trial>> parse_trials_part(std::string_view text, const std::string& where);

}  // namespace foreshard::sim
