// One rank's compute stream, cut into ops and the gaps between them, with what each gap waits for. Used by
// core/straggler and core/explain_time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/run/collective_key.hpp"
#include "core/run/run.hpp"

namespace foreshard::straggler_detail {

/// The last rank to begin a collective; the lowest of several.
struct LastRank {
  std::uint32_t rank = 0;
  Nanoseconds start;
};
using LastRanks = std::map<CollectiveKey, LastRank>;

[[nodiscard]] LastRanks last_ranks(const std::vector<RankOpRecord>& ops);

enum class SpanKind : std::uint8_t { compute = 0, waiting = 1, communication = 2, idle = 3 };

/// A stretch of the compute stream's time. They follow one another without holes from the first op on.
struct Span {
  SpanKind kind = SpanKind::compute;
  std::int32_t step = 0;  ///< of the op that runs in it, or that ends it
  LabelId phase;          ///< of that op; of `waiting`: of the collective
  Nanoseconds time;
  std::optional<std::uint32_t> for_rank;  ///< of `waiting`
  LabelId label;                          ///< of `compute`: the op's
  Nanoseconds begin;
  std::optional<CollectiveKey> behind;  ///< of `waiting`: the collective
};

/// `ops`: one rank's.
[[nodiscard]] std::vector<Span> compute_stream(std::span<const RankOpRecord> ops, const LastRanks& last);

}  // namespace foreshard::straggler_detail
