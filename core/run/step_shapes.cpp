#include "core/run/step_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/steady_step.hpp"

namespace foreshard {
namespace {

nlohmann::json result_json(const Run& run, const std::string& key) {
  const auto found = run.results.find(key);
  if (found == run.results.end()) return nullptr;
  nlohmann::json value = parse_json_text(found->second);
  return value.is_discarded() ? nlohmann::json() : value;
}

std::uint32_t count_of(const nlohmann::json& value) {
  return value.is_number_unsigned() ? value.get<std::uint32_t>() : 0;
}

/// Of a list of [batch, seq], null where not known.
std::vector<StepShape> pairs(const nlohmann::json& list) {
  std::vector<StepShape> out;
  for (const nlohmann::json& pair : list.is_array() ? list : nlohmann::json::array()) {
    StepShape& shape = out.emplace_back();
    if (pair.is_array() && pair.size() == 2) shape = {count_of(pair[0]), count_of(pair[1])};
  }
  return out;
}

std::string_view unit_of(std::uint32_t seq) {
  return seq > 1 ? "tokens a GPU" : "samples a GPU";
}

std::string numbers(const StepShape& shape) {
  return shape.seq > 1 ? fmt::format("{} × {}", shape.batch, shape.seq) : std::to_string(shape.batch);
}

/// Known ones, each once, the largest first: "4 × 2048, 4 × 1536 and 4 × 1024". Requires: not empty.
std::string size_list(std::vector<StepShape> shapes) {
  std::sort(shapes.rbegin(), shapes.rend());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  std::string text;
  for (std::size_t i = 0; i + 1 < shapes.size(); ++i) text += (i > 0 ? ", " : "") + numbers(shapes[i]);
  return text + (text.empty() ? "" : " and ") + numbers(shapes.back());
}

}  // namespace

std::string step_shapes_text(const std::vector<StepShape>& snapshot, const std::vector<StepShape>& trace) {
  const auto list = [](const std::vector<StepShape>& shapes) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const StepShape& shape : shapes)
      out.push_back(shape.known() ? nlohmann::ordered_json{shape.batch, shape.seq} : nlohmann::ordered_json());
    return out;
  };
  return nlohmann::ordered_json{{"snapshot", list(snapshot)}, {"trace", list(trace)}}.dump();
}

StepShapes::StepShapes(const Run& run) {
  if (run.settings.batch) all_ = {*run.settings.batch, run.settings.seq.value_or(1)};
  of_mean_ = {all_};
  if (run.info.kind == RunKind::planned && all_.known()) take_ranks(run);
  if (run.info.kind == RunKind::imported)
    take_recorded(run);
  else
    take_planned(run);
  std::sort(of_mean_.begin(), of_mean_.end());
  if (std::any_of(of_mean_.begin(), of_mean_.end(), [](const StepShape& shape) { return !shape.known(); }))
    of_mean_.clear();
}

/// The step is as long for all ranks, and its work is their mean; the ops are those of the told one.
void StepShapes::take_ranks(const Run& run) {
  const nlohmann::json ranks = result_json(run, "ranks");
  if (!ranks.is_object() || !ranks.value("mean_seq", nlohmann::json()).is_number()) return take_listed(run);
  const std::uint32_t told = count_of(ranks.value("told_rank", nlohmann::json()));
  const nlohmann::json groups = ranks.value("groups", nlohmann::json::array());
  std::vector<StepShape> of_ranks;
  StepShape of_told = all_;
  for (const nlohmann::json& group : groups) {
    if (!group.is_object() || of_ranks.size() > run.settings.world()) return;
    const std::uint32_t seq = count_of(group.value("seq", nlohmann::json()));
    const StepShape shape{all_.batch, seq > 0 ? seq : all_.seq};
    const std::uint32_t count = std::min(count_of(group.value("ranks", nlohmann::json())), run.settings.world());
    of_ranks.insert(of_ranks.end(), count, shape);
    if (count_of(group.value("first_rank", nlohmann::json())) == told) of_told = shape;
  }
  if (of_ranks.size() != run.settings.world()) return;
  of_mean_ = std::move(of_ranks);
  all_ = of_told;
}

/// Of a recording whose ranks were given unlike work, and of its plan; where all are known.
void StepShapes::take_listed(const Run& run) {
  const std::vector<RankShape> ranks = rank_shapes(run);
  if (ranks.size() != run.settings.world()) return;
  of_mean_.clear();
  for (const RankShape& rank : ranks) of_mean_.push_back({rank.batch, rank.seq});
}

void StepShapes::take_planned(const Run& run) {
  const nlohmann::json steps = result_json(run, "steps");
  if (!steps.is_array() || steps.empty()) return;
  differ_ = true;
  for (const nlohmann::json& step : steps)
    of_trace_.push_back(step.is_object() ? StepShape{count_of(step.value("batch", nlohmann::json())),
                                                     count_of(step.value("seq", nlohmann::json()))}
                                         : StepShape{});
  const SteadyCycle mean = steady_cycle(of_trace_.size(), count_of(result_json(run, "cycle")));
  of_mean_.assign(of_trace_.begin() + static_cast<std::ptrdiff_t>(mean.first()),
                  of_trace_.begin() + static_cast<std::ptrdiff_t>(mean.last + 1));
}

void StepShapes::take_recorded(const Run& run) {
  const nlohmann::json shapes = result_json(run, kStepShapes);
  const std::size_t cycle = run.measured ? run.measured->cycle : 1;
  differ_ = shapes.is_object() || cycle > 1;
  if (!differ_) {
    take_listed(run);
    return;
  }
  of_mean_.clear();
  if (!shapes.is_object()) return;
  of_snapshot_ = pairs(shapes.value("snapshot", nlohmann::json()));
  of_trace_ = pairs(shapes.value("trace", nlohmann::json()));
  if (run.measured && run.measured->steady_ms() > 0) {
    const std::size_t count = std::min(cycle, of_snapshot_.size());
    of_mean_.assign(of_snapshot_.end() - static_cast<std::ptrdiff_t>(count), of_snapshot_.end());
  } else if (const StepRecord* step = timed_step(run)) {
    of_mean_ = {of(step->recording, step->index)};
  }
}

StepShape StepShapes::of(Recording recording, std::int32_t index) const {
  if (!differ_) return all_;
  const std::vector<StepShape>& shapes = recording == Recording::snapshot ? of_snapshot_ : of_trace_;
  const auto place = static_cast<std::size_t>(std::max(0, index));
  return index >= 0 && place < shapes.size() ? shapes[place] : StepShape{};
}

std::string StepShapes::words_of(Recording recording, std::int32_t index) const {
  const StepShape own = of(recording, index);
  std::vector<StepShape> others;
  bool known = own.known();
  for (const StepShape& shape : recording == Recording::snapshot ? of_snapshot_ : of_trace_) {
    known &= shape.known();
    if (shape != own) others.push_back(shape);
  }
  if (!known || others.empty()) return shape_words(own) + ", and others are of other sizes";
  return fmt::format("{}; others are of {}", shape_words(own), size_list(std::move(others)));
}

std::string shape_words(const StepShape& shape) {
  return shape.known() ? fmt::format("{} {}", numbers(shape), unit_of(shape.seq)) : "a size that is not known";
}

std::string shape_words(std::vector<StepShape> shapes) {
  const auto least = std::min_element(shapes.begin(), shapes.end());
  if (shapes.empty() || !least->known()) return shape_words(StepShape{});
  const std::string_view unit = unit_of(least->seq);
  return fmt::format("{} {}", size_list(std::move(shapes)), unit);
}

}  // namespace foreshard
