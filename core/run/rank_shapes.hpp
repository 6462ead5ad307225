// Ranks of a recording that were given other batches or sequence lengths than others.
//
// Who: import writes what the recorder saw on each rank; core/straggler, core/compare's callers and reports read it.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

/// The result under which import and a plan of it keep them: a list of objects with `rank`, `batch` and `seq`, by rank
/// (older stores: of lists of these three, as a workload's file has them).
inline constexpr const char* kRankShapes = "rank_shapes";
/// Its text.
[[nodiscard]] std::string rank_shapes_text(const std::vector<RankShape>& shapes);

/// By rank; of a plan those whose ops it kept. Empty: all ranks' are equal, or they are not known.
[[nodiscard]] std::vector<RankShape> rank_shapes(const Run& run);

/// Tokens (samples, of those without a length) of a microbatch.
[[nodiscard]] inline std::uint64_t tokens_of(const RankShape& shape) {
  return std::uint64_t{shape.batch} * shape.seq;
}

/// How a rank's work is apart from others': `less` where another one has more; `more` where none has more, and another
/// has less; else, and where nothing is known of it, `no`.
enum class WorkApart : std::uint8_t { no = 0, less = 1, more = 2 };
[[nodiscard]] WorkApart work_apart(const std::vector<RankShape>& shapes, std::uint32_t rank);

/// Ranks that have most tokens, ascending, where that is more than a rank with the batch and length of `own` has: its
/// steps wait for them. Empty: it has as much as any, or its own are not known.
[[nodiscard]] std::vector<std::uint32_t> ranks_with_more(const std::vector<RankShape>& shapes, const Settings& own);

/// These, where their work is why the measured steps waited for another rank (Measured::late_rank). Empty: they waited
/// for none, or for one that is late itself.
[[nodiscard]] std::vector<std::uint32_t> late_with_more(const std::optional<Measured>& measured,
                                                        const std::vector<RankShape>& shapes, const Settings& own);

}  // namespace foreshard
