#include "viz/pack/rank_pieces.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "core/straggler/rank_path.hpp"
#include "viz/scene/rank_map.hpp"

namespace foreshard::viz {
namespace {

using RankJson = nlohmann::ordered_json;

/// Bins of all rows, so that a page of thousands of ranks stays as small as one of sixty-four: up to 1,024 rows each
/// has as many as a wide screen has pixels for a step, beyond that fewer. Of one row at most a few a kernel.
constexpr std::size_t kAllBins = std::size_t{1} << 21;
constexpr std::size_t kMaxBins = 1 << 15;

std::size_t bin_count(std::size_t rows) {
  return std::clamp<std::size_t>(kAllBins / std::max<std::size_t>(rows, 1), 1, kMaxBins);
}

RankJson path_json(const RankPath& path, Nanoseconds origin) {
  RankJson visits = RankJson::array();
  for (const PathVisit& visit : path.visits)
    visits.push_back({{"rank", visit.rank},
                      {"from", (visit.begin - origin).count},
                      {"to", (visit.end - origin).count},
                      {"text", visit_words(visit)}});
  return {{"step", path.step}, {"visits", std::move(visits)}};
}

}  // namespace

RankPieces::RankPieces(const Run& run, Nanoseconds origin) : run_(run), origin_(origin) {
  if (run.ranks.size() < 2) return;
  activity_ = rank_activity(run);
  if (activity_ && activity_->rows.size() < 2) activity_.reset();
  if (!activity_) return;
  first_ = Nanoseconds{INT64_MAX};
  last_ = Nanoseconds{INT64_MIN};
  for (const RankRow& row : activity_->rows) {
    first_ = std::min(first_, row.stretches.front().begin);
    last_ = std::max(last_, row.stretches.back().end);
  }
}

std::string RankPieces::map_json() const {
  RankJson json = {{"world", activity_->world}, {"missing", not_shown(*activity_)}};
  json["states"] = RankJson::array();
  for (std::size_t i = 0; i < kRankStates; ++i) {
    const auto state = static_cast<RankState>(i);
    json["states"].push_back({{"title", state_title(state)},
                              {"light", state_colour(state, Theme::light)},
                              {"dark", state_colour(state, Theme::dark)}});
  }
  json["rows"] = RankJson::array();
  for (const RankRow& row : activity_->rows)
    json["rows"].push_back(
        {{"rank", row.rank}, {"name", row_name(*activity_, row)}, {"ranks", rank_count(row.members)}});
  json["paths"] = RankJson::array();
  for (const RankPath& path : rank_paths(run_)) json["paths"].push_back(path_json(path, origin_));
  return json_text(json);
}

ColumnTable RankPieces::cells() const {
  std::vector<std::array<std::int64_t, 5>> rows;  // row, start, length, state, for_rank
  const std::size_t bins = bin_count(activity_->rows.size());
  const double width = static_cast<double>((last_ - first_).count) / static_cast<double>(bins);
  const auto at = [&](std::size_t bin) {
    return (first_ - origin_).count + static_cast<std::int64_t>(width * static_cast<double>(bin));
  };
  for (std::size_t i = 0; i < activity_->rows.size(); ++i)
    for (const RankCell& cell : rank_cells(activity_->rows[i], first_, last_, bins))
      rows.push_back({static_cast<std::int64_t>(i), at(cell.bin), at(cell.bin + cell.bins) - at(cell.bin),
                      column_value(cell.state), cell.state == RankState::waiting ? cell.for_rank : std::int64_t{-1}});
  ColumnTable table(kRankCells);
  const RowRange all{0, rows.size()};
  table.fill("row", all, [&](std::size_t i) { return rows[i][0]; });
  table.fill("start", all, [&](std::size_t i) { return rows[i][1]; });
  table.fill("length", all, [&](std::size_t i) { return rows[i][2]; });
  table.fill("state", all, [&](std::size_t i) { return rows[i][3]; });
  table.fill("for_rank", all, [&](std::size_t i) { return rows[i][4]; });
  return table;
}

}  // namespace foreshard::viz
