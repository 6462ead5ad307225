#include "core/straggler/rank_members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/base/json_io.hpp"

namespace foreshard {
namespace {

/// A number of a store's JSON that a rank can have.
std::optional<std::uint32_t> rank_number(const nlohmann::json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > UINT32_MAX) return std::nullopt;
  return value.get<std::uint32_t>();
}

std::optional<RankRun> run_of(const nlohmann::json& value) {
  if (!value.is_array() || value.size() != 3) return std::nullopt;
  const auto first = rank_number(value[0]), count = rank_number(value[1]), stride = rank_number(value[2]);
  if (!first || !count || !stride || *count == 0 || *stride == 0) return std::nullopt;
  if (std::uint64_t{*first} + std::uint64_t{*count - 1} * *stride > UINT32_MAX) return std::nullopt;
  return RankRun{*first, *count, *stride};
}

std::optional<RankMembers> members_of(const nlohmann::json& group) {
  if (!group.is_object() || !group.contains("first_rank") || !group.contains("members") || !group["members"].is_array())
    return std::nullopt;
  const auto first = rank_number(group["first_rank"]);
  if (!first) return std::nullopt;
  RankMembers out{*first, {}, group.value("kept", nlohmann::json(false)) == true};
  for (const nlohmann::json& value : group["members"]) {
    const auto run = run_of(value);
    if (!run) return std::nullopt;
    out.members.push_back(*run);
  }
  return out;
}

/// Of a plan what it says of its ranks; else null.
nlohmann::json answer_of(const Run& run) {
  const auto answer = run.results.find("ranks");
  if (run.info.kind != RunKind::planned || answer == run.results.end()) return {};
  return parse_json_text(answer->second);
}

std::string_view ordinal_ending(std::uint32_t number) {
  if (number % 100 / 10 == 1) return "th";
  switch (number % 10) {
    case 1:
      return "st";
    case 2:
      return "nd";
    case 3:
      return "rd";
    default:
      return "th";
  }
}

}  // namespace

std::vector<RankRun> runs_of(const std::vector<std::uint32_t>& ranks) {
  std::vector<RankRun> out;
  for (std::size_t i = 0; i < ranks.size();) {
    RankRun run{ranks[i], 1, 1};
    if (i + 1 < ranks.size()) run.stride = ranks[i + 1] - ranks[i];
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == run.stride) ++end;
    if (end - i < 3 && run.stride > 1) end = i + 1;
    run.count = static_cast<std::uint32_t>(end - i);
    if (run.count == 1) run.stride = 1;
    out.push_back(run);
    i = end;
  }
  return out;
}

std::uint32_t rank_count(const std::vector<RankRun>& runs) {
  std::uint32_t sum = 0;
  for (const RankRun& run : runs) sum += run.count;
  return sum;
}

bool has_rank(const std::vector<RankRun>& runs, std::uint32_t rank) {
  return std::any_of(runs.begin(), runs.end(), [rank](const RankRun& run) {
    return rank >= run.first && (rank - run.first) % run.stride == 0 && (rank - run.first) / run.stride < run.count;
  });
}

std::string rank_words(const std::vector<RankRun>& runs, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& [first, count, stride] = runs[i];
    if (i == most)
      return out + fmt::format(" and {} more", rank_count({runs.begin() + static_cast<std::ptrdiff_t>(i), runs.end()}));
    if (i > 0) out += ", ";
    out += std::to_string(first);
    if (count == 1) continue;
    out += fmt::format("–{}", first + (count - 1) * stride);
    if (stride > 1) out += fmt::format(" (every {}{})", stride, ordinal_ending(stride));
  }
  return out;
}

std::vector<RankMembers> rank_members(const Run& run) {
  const nlohmann::json json = answer_of(run);
  if (!json.is_object() || !json.contains("groups") || !json["groups"].is_array()) return {};
  std::vector<RankMembers> out;
  for (const nlohmann::json& group : json["groups"]) {
    auto members = members_of(group);
    if (!members) return {};
    out.push_back(std::move(*members));
  }
  return out;
}

std::vector<RankRun> planned_slower_ranks(const Run& run) {
  const nlohmann::json json = answer_of(run);
  if (!json.is_object() || !json.contains("slower") || !json["slower"].is_object()) return {};
  const nlohmann::json ranks = json["slower"].value("ranks", nlohmann::json());
  if (!ranks.is_array()) return {};
  std::vector<RankRun> out;
  for (const nlohmann::json& value : ranks) {
    const auto one = run_of(value);
    if (!one) return {};
    out.push_back(*one);
  }
  return out;
}

}  // namespace foreshard
