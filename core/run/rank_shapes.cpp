#include "core/run/rank_shapes.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard {

std::string rank_shapes_text(const std::vector<RankShape>& shapes) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const RankShape& shape : shapes) out.push_back({shape.rank, shape.batch, shape.seq});
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

}  // namespace

std::vector<RankShape> rank_shapes(const Run& run) {
  const auto found = run.results.find(kRankShapes);
  const nlohmann::json list = found == run.results.end() ? nlohmann::json() : parse_json_text(found->second);
  if (!list.is_array() || list.empty())
    return run.info.kind == RunKind::planned ? planned_shapes(run) : std::vector<RankShape>();
  std::vector<RankShape> out;
  for (const nlohmann::json& item : list) {
    nlohmann::json three = item;  // an import's; a plan's, as in its answer, is an object
    if (item.is_object()) {
      three = nlohmann::json::array();
      for (const char* key : {"rank", "batch", "seq"}) three.push_back(item.value(key, nlohmann::json()));
    }
    const bool known = three.is_array() && three.size() == 3 && three[0].is_number_unsigned() &&
                       three[1].is_number_unsigned() && three[2].is_number_unsigned();
    if (!known) return {};
    const RankShape shape{three[0].get<std::uint32_t>(), three[1].get<std::uint32_t>(), three[2].get<std::uint32_t>()};
    if (shape.batch == 0 || shape.seq == 0 || (!out.empty() && shape.rank <= out.back().rank)) return {};
    out.push_back(shape);
  }
  return out;
}

WorkApart work_apart(const std::vector<RankShape>& shapes, std::uint32_t rank) {
  const auto own = std::find_if(shapes.begin(), shapes.end(), [&](const RankShape& of) { return of.rank == rank; });
  if (own == shapes.end() || shapes.size() < 2) return WorkApart::no;
  const auto all_others = [&](auto holds) {
    return std::all_of(shapes.begin(), shapes.end(),
                       [&](const RankShape& of) { return of.rank == rank || holds(tokens_of(*own), tokens_of(of)); });
  };
  if (all_others(std::less<>())) return WorkApart::less;
  return all_others(std::greater<>()) ? WorkApart::more : WorkApart::no;
}

}  // namespace foreshard
