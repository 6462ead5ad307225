// Whom the measured steps of a recording waited for.
//
// What explain says of the recorded ranks (straggler.hpp) decides where traces of several are there; else, and where no
// rank of them is late but the imported one waits, what each was given (rank_shapes.hpp).
//
// Who: import, which keeps it with what was measured (Measured::late_rank). Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "core/run/run.hpp"

namespace foreshard {

struct HeldUpBy {
  std::uint32_t rank = 0;
  bool itself = false;  ///< Measured::late_itself; without ranks of unlike work there is nothing to tell it from
};

/// Another rank than the imported one, the first of `run.ranks`; none: none is known.
[[nodiscard]] std::optional<HeldUpBy> held_up_by(const Run& run);

}  // namespace foreshard
