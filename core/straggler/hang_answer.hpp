// What a planned job that hangs left in its run (Run::results, "hang"; docs/plan.md): who waits for whom.
//
// Who: the heat map of ranks, the graph of who waits for whom, and explain's table and JSON. Pure; deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

struct HangAnswer {
  struct Wait {
    std::string collective;
    std::string communicator;
    std::uint32_t ranks = 0;
    std::vector<std::uint32_t> absent;  ///< that do not come; may be empty
    Nanoseconds issued;
  };
  /// Ranks that nothing tells apart.
  struct Ranks {
    std::vector<std::uint32_t> ranks;  ///< at least one
    std::vector<Wait> waits;
    std::string host_stands_at;
    std::uint32_t host_step = 0;
  };
  /// A rank that issues nothing from that step on.
  struct Dead {
    std::uint32_t rank = 0;
    std::uint32_t from_step = 0;
  };
  std::vector<Dead> dead;
  std::vector<Ranks> ranks;
  std::uint32_t whole_steps = 0;
  Nanoseconds last_whole_step_end;
};

/// None: the run is no plan, it does not hang, or what its store says is not as foreshard writes it.
[[nodiscard]] std::optional<HangAnswer> hang_answer(const Run& run);

}  // namespace foreshard
