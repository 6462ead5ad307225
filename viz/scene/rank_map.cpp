#include "viz/scene/rank_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace foreshard::viz {
namespace {

/// What one bin is filled with.
struct Bin {
  StateTimes times;
  std::map<std::uint32_t, std::int64_t> waits;  // ns by rank
};

RankCell cell_of(const Bin& bin, std::size_t at) {
  const auto most = std::max_element(bin.times.begin(), bin.times.end());
  RankCell out{at, 1, static_cast<RankState>(most - bin.times.begin()), 0};
  if (out.state == RankState::waiting)
    out.for_rank = std::max_element(bin.waits.begin(), bin.waits.end(), [](const auto& a, const auto& b) {
                     return a.second < b.second;
                   })->first;
  return out;
}

void add_cell(std::vector<RankCell>& cells, const RankCell& next) {
  if (!cells.empty()) {
    RankCell& last = cells.back();
    if (last.bin + last.bins == next.bin && last.state == next.state && last.for_rank == next.for_rank) {
      last.bins += next.bins;
      return;
    }
  }
  cells.push_back(next);
}

std::uint32_t ranks_in(const std::vector<RankMembers>& groups) {
  std::uint32_t sum = 0;
  for (const RankMembers& group : groups) sum += rank_count(group.members);
  return sum;
}

}  // namespace

std::vector<RankCell> rank_cells(const RankRow& row, Nanoseconds from, Nanoseconds to, std::size_t count) {
  std::vector<RankCell> out;
  if (to <= from || count == 0) return out;
  const double width = static_cast<double>((to - from).count) / static_cast<double>(count);
  const auto bound = [&](std::size_t bin) {
    return from + Nanoseconds::from_double(std::round(width * static_cast<double>(bin)));
  };
  std::size_t next = 0;
  for (std::size_t bin = 0; bin < count; ++bin) {
    const Nanoseconds begin = bound(bin), end = bound(bin + 1);
    while (next < row.stretches.size() && row.stretches[next].end <= begin) ++next;
    Bin filled;
    bool any = false;
    for (std::size_t i = next; i < row.stretches.size() && row.stretches[i].begin < end; ++i) {
      const RankStretch& stretch = row.stretches[i];
      const Nanoseconds within = std::min(stretch.end, end) - std::max(stretch.begin, begin);
      if (within.count <= 0) continue;
      any = true;
      filled.times[static_cast<std::size_t>(stretch.state)] += within;
      if (stretch.state == RankState::waiting) filled.waits[stretch.for_rank] += within.count;
    }
    if (any) add_cell(out, cell_of(filled, bin));
  }
  return out;
}

StateTimes state_times(const RankRow& row, Nanoseconds from, Nanoseconds to) {
  StateTimes out{};
  for (const RankStretch& stretch : row.stretches) {
    const Nanoseconds within = std::min(stretch.end, to) - std::max(stretch.begin, from);
    if (within.count > 0) out[static_cast<std::size_t>(stretch.state)] += within;
  }
  return out;
}

std::string_view state_title(RankState state) {
  constexpr std::array<std::string_view, 4> kTitles{"compute", "behind collectives", "waits for a rank", "idle"};
  static_assert(kTitles.size() == kRankStates);
  return kTitles[static_cast<std::size_t>(state)];
}

std::string_view state_colour(RankState state, Theme theme) {
  switch (state) {
    case RankState::compute:
      return style(OpClass::gemm).fill;
    case RankState::communication:
      return style(OpClass::all_gather).fill;
    case RankState::waiting:
      return style(OpClass::all_reduce).fill;
    case RankState::idle:
      break;
  }
  return theme == Theme::dark ? "#4a4f59" : "#d4d4d4";
}

std::string row_name(const RankActivity& activity, const RankRow& row) {
  const std::uint32_t count = rank_count(row.members);
  if (count == 1 && activity.rows.size() == 1 && !activity.planned) return "the recorded rank";
  if (count == 1) return fmt::format("rank {}", row.rank);
  return fmt::format("ranks {} ({})", rank_words(row.members, 2), count);
}

std::string state_words(const StateTimes& times) {
  std::string out;
  for (std::size_t i = 0; i < kRankStates; ++i)
    out += fmt::format("{}{} {:.2f}", i > 0 ? ", " : "", state_title(static_cast<RankState>(i)), times[i].ms());
  return out + " ms";
}

std::string not_shown(const RankActivity& activity) {
  if (!activity.not_kept.empty())
    return fmt::format("{} ranks in {} group{} of equal ones are not kept: plan … --ranks all -o RUN keeps them",
                       ranks_in(activity.not_kept), activity.not_kept.size(), activity.not_kept.size() == 1 ? "" : "s");
  std::uint32_t shown = 0;
  for (const RankRow& row : activity.rows) shown += rank_count(row.members);
  if (shown >= activity.world) return {};
  return fmt::format("{} of {} ranks are {}", activity.world - shown, activity.world,
                     activity.planned ? "not kept: plan … --ranks all -o RUN keeps them"
                                      : "not recorded: import FOLDER --rank all reads every rank's trace");
}

}  // namespace foreshard::viz
