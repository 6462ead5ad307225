#include "core/run/rank_shapes.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/json_io.hpp"

namespace foreshard {

std::string rank_shapes_text(const std::vector<RankShape>& shapes) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const RankShape& of : shapes) out.push_back({{"rank", of.rank}, {"batch", of.batch}, {"seq", of.seq}});
  return out.dump();
}

namespace {

/// Of a plan whose ranks have lengths of their own: those of the ranks whose ops it kept, by its groups of equal ones.
std::vector<RankShape> planned_shapes(const Run& run) {
  const auto found = run.results.find("ranks");
  if (found == run.results.end() || !run.settings.batch || run.settings.seq.value_or(1) == 1) return {};
  const nlohmann::json ranks = parse_json_text(found->second);
  if (!ranks.is_object() || !ranks.value("mean_seq", nlohmann::json()).is_number()) return {};
  std::vector<RankShape> out;
  for (const RankRecord& of : run.ranks) out.push_back({of.rank, *run.settings.batch, *run.settings.seq});
  const auto number = [](const nlohmann::json& value) {
    return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
  };
  for (const nlohmann::json& group : ranks.value("groups", nlohmann::json::array())) {
    if (!group.is_object()) return {};
    const std::uint64_t seq = number(group.value("seq", nlohmann::json()));
    for (const nlohmann::json& run_of : group.value("members", nlohmann::json::array())) {
      if (!run_of.is_array() || run_of.size() != 3 || number(run_of[2]) == 0) return {};
      const std::uint64_t first = number(run_of[0]), count = number(run_of[1]), stride = number(run_of[2]);
      for (RankShape& of : out)
        if (seq > 0 && of.rank >= first && (of.rank - first) % stride == 0 && (of.rank - first) / stride < count)
          of.seq = static_cast<std::uint32_t>(seq);
    }
  }
  std::sort(out.begin(), out.end(), [](const RankShape& a, const RankShape& b) { return a.rank < b.rank; });
  return out;
}

/// Of an object, or of a list as older stores have it; none: it has no such number.
std::optional<std::uint32_t> shape_number(const nlohmann::json& item, const char* key, std::size_t place) {
  const bool named = item.is_object() && item.contains(key), listed = item.is_array() && item.size() == 3;
  if (!named && !listed) return std::nullopt;
  const nlohmann::json& number = named ? item[key] : item[place];
  const bool known = number.is_number_unsigned() && number.get<std::uint64_t>() <= UINT32_MAX;
  return known ? std::optional(number.get<std::uint32_t>()) : std::nullopt;
}

}  // namespace

std::vector<RankShape> rank_shapes(const Run& run) {
  const auto found = run.results.find(kRankShapes);
  const nlohmann::json list = found == run.results.end() ? nlohmann::json() : parse_json_text(found->second);
  if (!list.is_array() || list.empty())
    return run.info.kind == RunKind::planned ? planned_shapes(run) : std::vector<RankShape>();
  std::vector<RankShape> out;
  for (const nlohmann::json& item : list) {
    const auto rank = shape_number(item, "rank", 0);
    if (!rank) return {};
    const RankShape shape{*rank, shape_number(item, "batch", 1).value_or(0), shape_number(item, "seq", 2).value_or(0)};
    if (shape.batch == 0 || shape.seq == 0 || (!out.empty() && shape.rank <= out.back().rank)) return {};
    out.push_back(shape);
  }
  return out;
}

WorkApart work_apart(const std::vector<RankShape>& shapes, std::uint32_t rank) {
  const auto own = std::find_if(shapes.begin(), shapes.end(), [&](const RankShape& of) { return of.rank == rank; });
  if (own == shapes.end()) return WorkApart::no;
  const auto any_other = [&](auto holds) {
    return std::any_of(shapes.begin(), shapes.end(),
                       [&](const RankShape& of) { return holds(tokens_of(of), tokens_of(*own)); });
  };
  if (any_other(std::greater<>())) return WorkApart::less;
  return any_other(std::less<>()) ? WorkApart::more : WorkApart::no;
}

std::vector<std::uint32_t> ranks_with_more(const std::vector<RankShape>& shapes, const Settings& own) {
  if (!own.batch) return {};
  std::uint64_t most = std::uint64_t{*own.batch} * own.seq.value_or(1);
  std::vector<std::uint32_t> out;
  for (const RankShape& of : shapes) {
    if (tokens_of(of) > most) out.clear();
    if (tokens_of(of) > most || (tokens_of(of) == most && !out.empty())) out.push_back(of.rank);
    most = std::max(most, tokens_of(of));
  }
  return out;
}

std::vector<std::uint32_t> late_with_more(const std::optional<Measured>& measured, const std::vector<RankShape>& shapes,
                                          const Settings& own) {
  if (!measured || measured->late_rank < 0 || measured->late_itself) return {};
  return ranks_with_more(shapes, own);
}

}  // namespace foreshard
