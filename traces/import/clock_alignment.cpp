#include "traces/import/clock_alignment.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace foreshard::traces {
namespace {

/// The offset of `other` to the clock of `known`, by the collectives that both have.
std::optional<ClockOffset> offset_between(const RankCollectives& known, const RankCollectives& other) {
  std::vector<Nanoseconds> ends;
  Nanoseconds least{std::numeric_limits<std::int64_t>::min()};
  Nanoseconds most{std::numeric_limits<std::int64_t>::max()};
  for (auto a = known.begin(), b = other.begin(); a != known.end() && b != other.end();) {
    if (a->first != b->first) {
      ++(a->first < b->first ? a : b);
      continue;
    }
    ends.push_back(a->second.end - b->second.end);
    least = std::max(least, a->second.start - b->second.end);
    most = std::min(most, a->second.end - b->second.start);
    ++a, ++b;
  }
  if (ends.empty() || least > most) return std::nullopt;
  const auto middle = ends.begin() + static_cast<std::ptrdiff_t>(ends.size() / 2);
  std::nth_element(ends.begin(), middle, ends.end());
  const Nanoseconds offset = std::clamp(*middle, least, most);
  return ClockOffset{offset, std::max(offset - least, most - offset)};
}

}  // namespace

std::vector<std::optional<ClockOffset>> align_clocks(const std::vector<RankCollectives>& ranks) {
  std::vector<std::optional<ClockOffset>> offsets(ranks.size());
  if (ranks.empty()) return offsets;
  offsets.front() = ClockOffset{};
  std::vector<std::size_t> reached{0};  // breadth first: the shortest chain, the lowest rank first
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const std::size_t known = reached[next];
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (offsets[other]) continue;
      const auto between = offset_between(ranks[known], ranks[other]);
      if (!between) continue;
      offsets[other] = ClockOffset{offsets[known]->offset + between->offset, offsets[known]->error + between->error};
      reached.push_back(other);
    }
  }
  return offsets;
}

}  // namespace foreshard::traces
