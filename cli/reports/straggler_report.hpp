// How find_stragglers() is told: a table for people, and the same numbers as JSON.
#pragma once

#include <optional>
#include <ostream>

#include "cli/terminal/output.hpp"
#include "core/straggler/rank_path.hpp"
#include "core/straggler/straggler.hpp"

namespace foreshard::cli {

void print_stragglers(std::ostream& out, const Stragglers& found);

/// The critical path over the ranks: at most a dozen lines that add up to the step.
void print_rank_path(std::ostream& out, const RankPath& path);
/// Key `rank_path` of `explain --time --json`.
[[nodiscard]] Json rank_path_json(const RankPath& path);

/// What each rank of a recording was given: `rank`, `batch`, `seq`; null where they are alike, or not known.
[[nodiscard]] Json rank_shapes_json(const std::vector<RankShape>& shapes);
/// Key `own_kernels` of `fit --json` and of the late rank; null: none.
[[nodiscard]] Json own_kernels_json(const std::optional<OwnKernels>& own);

/// Key `ranks` of `explain --json` (docs/explain.md).
[[nodiscard]] Json stragglers_json(const Stragglers& found);

}  // namespace foreshard::cli
