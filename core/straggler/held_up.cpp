#include "core/straggler/held_up.hpp"

#include <algorithm>

#include "core/run/rank_shapes.hpp"
#include "core/straggler/straggler.hpp"

namespace foreshard {
namespace {

/// By as much of its step as the others wait for a late rank.
bool waits(const Stragglers& found, std::uint32_t rank) {
  return std::any_of(found.ranks.begin(), found.ranks.end(), [&](const RankTime& time) {
    return time.rank == rank && time.waiting >= time.step.scaled(kLateShareOfStep);
  });
}

}  // namespace

std::optional<HeldUpBy> held_up_by(const Run& run) {
  const std::vector<RankShape> shapes = rank_shapes(run);
  const std::vector<std::uint32_t> more = ranks_with_more(shapes, run.settings);
  if (const auto found = find_stragglers(run)) {
    const std::uint32_t own = run.ranks.front().rank;
    if (const auto& late = found->late) {
      const bool as_much = late->more_work && more.empty();  // then this one is as late
      if (late->rank == own || as_much) return std::nullopt;
      return HeldUpBy{late->rank, !late->more_work && !shapes.empty()};
    }
    if (!waits(*found, own)) return std::nullopt;
  }
  if (more.empty()) return std::nullopt;
  return HeldUpBy{more.front(), false};
}

}  // namespace foreshard
