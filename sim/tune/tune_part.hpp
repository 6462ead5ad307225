// One task's share of one batch of a search as a file: of several tasks each has every so many-th point of each batch.
//
// Who: cli's tune writes and reads them (cli/verbs/batch_parts.hpp). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/parallel/part_file.hpp"
#include "sim/tune/batch.hpp"

namespace foreshard::sim {

/// Of one batch of one search, whose own fingerprint is `search`: another search, another batch of this one and the
/// same one of tasks that no longer agree each have another.
[[nodiscard]] std::string batch_fingerprint(const std::string& search, const TuneBatch& batch);

/// What `points`, those of a whole batch, have of `part`.
[[nodiscard]] std::string tune_part_text(const Part& part, const std::string& fingerprint,
                                         const std::vector<SweepPoint>& points);
/// Errors: read_part()'s.
[[nodiscard]] Result<PartFile<SweepPoint>> parse_tune_part(std::string_view text, const std::string& where);

}  // namespace foreshard::sim
