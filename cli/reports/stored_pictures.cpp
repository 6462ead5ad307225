#include "cli/reports/stored_pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/reports/counted.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

constexpr std::array<std::string_view, 3> kMarks{"growth", "retry", "out_of_memory"};

/// Discarded where the store has none.
Json stored_result(const Run& run, std::string_view key) {
  const auto found = run.results.find(std::string(key));
  return found == run.results.end() ? Json(Json::value_t::discarded) : parse_ordered_json_text(found->second);
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}
std::string text_at(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}
std::optional<Bytes> bytes_at(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_number_unsigned() ? std::optional(value->get<Bytes>()) : std::nullopt;
}
bool flag_at(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

std::optional<viz::FrontPoint> front_point(const Json& point, std::size_t number) {
  const Json* step = member(point, "step_ms");
  const auto reserved = bytes_at(point, "peak_reserved_bytes");
  if (step == nullptr || !step->is_number() || !reserved) return std::nullopt;
  viz::FrontPoint out;
  out.number = number;
  out.step_ms = step->get<double>();
  out.reserved = *reserved;
  if (flag_at(point, "on_front"))
    out.kind = viz::FrontPoint::Kind::front;
  else if (!flag_at(point, "takes_part") || !flag_at(point, "leaves_headroom"))
    out.kind = viz::FrontPoint::Kind::no_part;
  const std::string changes = text_at(point, "changes");
  out.text = fmt::format("{}: {:.2f} ms, {}; {}; {}", number, out.step_ms, format_bytes(*reserved),
                         changes.empty() ? "as asked for" : changes, text_at(point, "phrase"));
  return out;
}

/// In both themes, as wide as a page's column, and for a telephone. The page has the headline above it.
template <class Picture, class Draw>
Json page_picture(const char* name, Picture picture, Draw draw) {
  constexpr std::uint32_t kColumn = 1000, kTelephone = 420;
  Json json{{"name", name}, {"title", picture.headline}};
  picture.headline.clear();
  for (const auto& [width, prefix] : {std::pair(kColumn, ""), std::pair(kTelephone, "narrow_")}) {
    picture.width = width;
    for (const auto& [theme, key] : {std::pair(viz::Theme::light, "light"), std::pair(viz::Theme::dark, "dark")}) {
      picture.theme = theme;
      json[std::string(prefix) + key] = draw(picture);
    }
  }
  return json;
}

}  // namespace

std::optional<viz::FrontPicture> stored_front(const Run& run) {
  const Json tune = stored_result(run, kTuneResult);
  const Json* points = member(tune, "points");
  if (points == nullptr || !points->is_array()) return std::nullopt;
  viz::FrontPicture out;
  out.title = fmt::format("{} on {}", text_at(tune, "name"), text_at(tune, "machine"));
  const Json* best = member(tune, "best");
  if (const Json* valid = best == nullptr ? nullptr : member(*best, "valid"); valid != nullptr && *valid == Json(false))
    out.title += " · the best one's time is not valid";
  const std::string best_changes = best == nullptr ? std::string() : text_at(*best, "changes");
  for (std::size_t i = 0; i < points->size(); ++i) {
    auto point = front_point((*points)[i], i);
    if (!point) continue;
    if (i == 0)
      point->name = best_changes.empty() ? "best, as asked for" : "as asked for";
    else if (!best_changes.empty() && text_at((*points)[i], "changes") == best_changes)
      point->name = "best";
    out.points.push_back(std::move(*point));
  }
  if (out.points.empty()) return std::nullopt;
  const Bytes capacity = bytes_at(tune, "memory_capacity_bytes").value_or(0);
  out.limit = capacity - std::min(capacity, bytes_at(tune, "headroom_bytes").value_or(0));
  out.headline = "everything that was tried: " + counted(static_cast<std::int64_t>(points->size()), "point", "points");
  return out;
}

std::optional<viz::StepMemoryPicture> stored_step_memory(const Run& run) {
  const Json stored = stored_result(run, kStepMemoryResult);
  const Json* reserved = member(stored, "reserved");
  const Json* allocated = member(stored, "allocated");
  const auto each = bytes_at(stored, "steps_each");
  if (reserved == nullptr || allocated == nullptr || !reserved->is_array() || !allocated->is_array()) return {};
  if (reserved->empty() || reserved->size() != allocated->size() || !each || *each == 0) return {};
  viz::StepMemoryPicture out;
  out.title = text_at(stored, "title");
  out.headline = text_at(stored, "headline");
  out.limit = bytes_at(stored, "limit_bytes").value_or(0);
  out.each = *each;
  for (std::size_t i = 0; i < reserved->size(); ++i) {
    const Json& r = (*reserved)[i];
    const Json& a = (*allocated)[i];
    if (!r.is_number_unsigned() || !a.is_number_unsigned()) return {};
    out.steps.push_back({r.get<Bytes>(), a.get<Bytes>()});
  }
  const Json* marks = member(stored, "marks");
  for (const Json& mark : marks != nullptr && marks->is_array() ? *marks : Json::array()) {
    const auto kind = std::find(kMarks.begin(), kMarks.end(), text_at(mark, "kind"));
    const auto step = bytes_at(mark, "step");
    if (kind == kMarks.end() || !step) return {};
    out.marks.push_back({static_cast<viz::StepMark::Kind>(kind - kMarks.begin()), *step, text_at(mark, "text")});
  }
  return out;
}

std::vector<std::string> forecast_lines(const Run& run) {
  const auto stored = stored_step_memory(run);
  if (!stored) return {};
  Bytes most = 0;
  for (const viz::StepMemory& step : stored->steps) most = std::max(most, step.reserved);
  const std::string peak = format_bytes(most);
  return {fmt::format("forecast ({}): {}; its peak of reserved memory is {}", stored->title, stored->headline, peak),
          "the run below, and its memory, is another one's: the plan of its source (of a model a step of the longest "
          "length that it came to), in a process of its own (view --picture steps draws the forecast's)"};
}

std::vector<FrontRun> stored_front_runs(const Run& run) {
  const Json stored = stored_result(run, kFrontRunsResult);
  std::vector<FrontRun> out;
  if (!stored.is_array()) return out;
  for (const Json& one : stored)
    if (const auto point = bytes_at(one, "point"); point && !text_at(one, "run").empty())
      out.push_back({*point, text_at(one, "run")});
  return out;
}

Json step_memory_json(const viz::StepMemoryPicture& picture) {
  Json json{{"title", picture.title},     {"headline", picture.headline}, {"limit_bytes", picture.limit},
            {"steps_each", picture.each}, {"reserved", Json::array()},    {"allocated", Json::array()},
            {"marks", Json::array()}};
  for (const viz::StepMemory& step : picture.steps) {
    json["reserved"].push_back(step.reserved);
    json["allocated"].push_back(step.allocated);
  }
  for (const viz::StepMark& mark : picture.marks)
    json["marks"].push_back(
        {{"kind", kMarks[static_cast<std::size_t>(mark.kind)]}, {"step", mark.step}, {"text", mark.text}});
  return json;
}

Json pictures_json(const Run& run) {
  Json list = Json::array();
  if (auto front = stored_front(run)) list.push_back(page_picture("front", std::move(*front), viz::draw_front));
  if (auto steps = stored_step_memory(run))
    list.push_back(page_picture("steps", std::move(*steps), viz::draw_memory_over_steps));
  return list;
}

}  // namespace foreshard::cli
