#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/run_names.hpp"
#include "core/settings/settings_table.hpp"
#include "viz/pack/pack_parts.hpp"
#include "viz/scene/caption.hpp"
#include "viz/scene/lanes.hpp"

namespace foreshard::viz {
namespace {

using Json = nlohmann::ordered_json;
using Action = AllocatorAction;

/// More marks than pixels help nobody: those with the fewest bytes are left out.
constexpr std::size_t kMaxMarks = 2000;

/// Text of a run may be no UTF-8.
std::string text_of(const Json& json) {
  return json_text(json);
}

Json tables_json() {
  Json out = Json::object();
  for (const TableLayout& table : kTables)
    for (const ColumnInfo& column : table.columns) out[std::string(table.name)].push_back(marked_name(column));
  return out;
}

Json ink_json(Theme theme) {
  const Ink& of = ink(theme);
  return {{"paper", of.paper},         {"text", of.text},           {"faint", of.faint},   {"grid", of.grid},
          {"band", of.band},           {"allocated", of.allocated}, {"active", of.active}, {"reserved", of.reserved},
          {"requested", of.requested}, {"alarm", of.alarm}};
}

/// Statistics' peaks of a span of the allocator's clock: bytes and the first time they were reached.
class Peaks {
 public:
  void raise(const MemoryState& state, std::int64_t time) {
    const auto now = statistics_of(state);
    for (std::size_t k = 0; k < now.size(); ++k)
      if (!any_ || now[k] > bytes_[k]) {
        bytes_[k] = now[k];
        time_[k] = time;
      }
    any_ = true;
  }
  [[nodiscard]] Json json() const {
    Json out = Json::object();
    for (std::size_t k = 0; any_ && k < bytes_.size(); ++k)
      out[std::string(kStatistics[k])] = {{"bytes", bytes_[k]}, {"time", time_[k]}};
    return out;
  }

 private:
  std::array<std::int64_t, 4> bytes_{}, time_{};
  bool any_ = false;
};

class Meta {
 public:
  explicit Meta(const PackParts& parts) : p_(parts), run_(parts.run) {}

  Json json() {
    Json out = Json::object();
    out["schema"] = 2;
    out["tables"] = tables_json();
    out["tile_rows"] = kTileRows;
    out["before"] = kBefore;
    out["never"] = kNever;
    head(out);
    steps(out);
    phases(out);
    if (p_.memory) memory(out);
    if (p_.blocks) blocks(out);
    tracks(out);
    out["streams"] = Json::array();
    for (const StreamRecord& stream : run_.streams)
      out["streams"].push_back(
          {{"id", stream.id.value}, {"name", p_.facts.stream(stream.id).name}, {"title", stream.name}});
    out["units"] = Json::array();
    for (const Unit& unit : run_.units) out["units"].push_back(unit.name.empty() ? "root" : unit.name);
    out["parameters"] = Json::array();
    for (const Unit& unit : run_.units)
      for (const Parameter& parameter : unit.parameters) out["parameters"].push_back(parameter.name);
    return out;
  }

 private:
  void head(Json& out) const {
    out["name"] = run_.info.name.empty() ? "run" : run_.info.name;
    out["kind"] = name(run_.info.kind);
    out["headline"] = headline(run_);
    out["subtitle"] = subtitle(run_, p_.window);
    out["facts"] = caption(run_, p_.window, {});
    out["warnings"] = run_.info.warnings;
    out["two_clocks"] = p_.window.two_clocks;
    out["counts_events"] = counts_events(run_);
    clocks(out);
    out["view"] = {{"from", p_.window.from.count},
                   {"to", p_.window.to.count},
                   {"stacking", p_.stacking},
                   {"memory_over", name(p_.window.memory_over)}};
    out["origin"] = {{"memory", p_.memory_origin.count}, {"lanes", p_.lane_origin.count}};
    out["results"] = Json::object();
    for (const auto& [key, value] : run_.results) out["results"][key] = parse_ordered_json_text(value);
    for (auto& [key, value] : out["results"].items())
      if (value.is_discarded()) value = nullptr;
    out["ink"] = {{"light", ink_json(Theme::light)}, {"dark", ink_json(Theme::dark)}};
    out["import_stats"] = Json::array();
    for (const ImportStat& stat : run_.import_stats)
      out["import_stats"].push_back({{"count", stat.count}, {"text", stat.text}});
    words(out);
  }

  /// How memory's times are laid over the lanes' (viz/scene/memory_clock.hpp); without knots they are on one clock.
  void clocks(Json& out) const {
    out["clocks"] = Json::array();
    for (const MemoryOver over : {MemoryOver::host, MemoryOver::gpu}) {
      const Window window = with_memory_over(run_, p_.window, over);
      if (window.memory_over != over) continue;
      Json knots = Json::array();
      if (window.memory && window.lanes)
        for (const ClockKnot& knot : window.memory->knots)
          knots.push_back({(knot.memory - p_.memory_origin).count, (knot.axis - p_.lane_origin).count});
      out["clocks"].push_back({{"over", name(over)}, {"knots", std::move(knots)}, {"note", clock_note(window)}});
    }
  }

  static void words(Json& out) {
    const auto list = [&out]<class Enum>(const char* key, Enum) {
      out["words"][key] = Json::array();
      for (const std::string_view word : EnumNames<Enum>::kNames) out["words"][key].push_back(word);
    };
    list("device_kind", DeviceOpRecord::Kind{});
    list("host_kind", HostOpRecord::Kind{});
    list("collective", CollectiveKind{});
    list("transport", Transport{});
    out["categories"] = Json::array();
    for (std::size_t i = 0; i < kCategories; ++i) {
      const Style of = style(static_cast<MemoryCategory>(i));
      out["categories"].push_back(
          {{"key", name(static_cast<MemoryCategory>(i))}, {"title", of.title}, {"colour", of.fill}});
    }
    out["classes"] = Json::array();
    for (std::size_t i = 0; i < kLaneClasses; ++i) {
      const Style of = lane_style(static_cast<std::uint8_t>(i));
      out["classes"].push_back({{"title", of.title}, {"colour", of.fill}});
    }
    out["gap_parts"] = Json::array();
    for (const GapPart& part : gap_parts())
      out["gap_parts"].push_back({{"key", part.key}, {"title", part.style.title}, {"colour", part.style.fill}});
  }

  [[nodiscard]] bool on_memory(Recording recording) const {
    return p_.window.memory && recording == p_.window.memory->recording;
  }
  [[nodiscard]] bool on_lanes(Recording recording) const {
    return p_.window.lanes && recording == p_.window.lanes->recording;
  }

  void steps(Json& out) const {
    out["steps"] = Json::array();
    for (const StepRecord& step : run_.steps) {
      const bool memory = on_memory(step.recording), lanes = on_lanes(step.recording);
      if (!memory && !lanes) continue;
      const Nanoseconds origin = memory ? p_.memory_origin : p_.lane_origin;
      Json of{{"index", step.index},
              {"memory", memory},
              {"lanes", lanes},
              {"start", (step.start - origin).count},
              {"end", (step.end - origin).count},
              {"retries", step.num_alloc_retries}};
      if (step.device_end) of["device_end"] = (*step.device_end - origin).count;
      if (memory)
        of["recorded_peaks"] = {{"allocated", step.peaks.allocated},
                                {"active", step.peaks.active},
                                {"reserved", step.peaks.reserved},
                                {"requested", step.peaks.requested}};
      out["steps"].push_back(std::move(of));
    }
  }

  void phases(Json& out) const {
    out["phases"] = Json::array();
    Window all = p_.window;
    all.from = {INT64_MIN};
    all.to = {INT64_MAX};
    const auto add = [&](const std::vector<Stretch>& stretches, const char* where) {
      for (const Stretch& of : stretches)
        out["phases"].push_back(
            {{"on", where}, {"name", of.name}, {"step", of.step}, {"start", of.start.count}, {"end", of.end.count}});
    };
    if (p_.window.memory) {
      Side memory = *p_.window.memory;
      memory.knots.clear();
      add(host_phases(run_, memory, all), "memory");
    }
    if (p_.window.lanes) add(host_phases(run_, *p_.window.lanes, all), "host");
    if (p_.window.lanes) add(device_phases(run_, *p_.window.lanes, all), "device");
  }

  void memory(Json& out) const {
    Json levels = Json::array();
    for (const MemoryLevel& level : p_.memory->levels()) {
      Json starts = Json::array();
      for (const MemoryTile& tile : level.tiles) starts.push_back(tile.start.count);
      levels.push_back({{"width", level.width.count}, {"starts", std::move(starts)}});
    }
    Json stackings = Json::array();
    for (std::size_t k = 0; k < kStackings; ++k) {
      const auto stacking = static_cast<Stacking>(k);
      const auto& components = p_.memory->components(stacking);
      if (components.empty()) continue;
      Json list = Json::array();
      for (const StackComponent& of : components) list.push_back({{"title", of.title}, {"colour", of.colour}});
      const bool allocated = stacking != Stacking::gap;
      Json of{{"key", name(stacking)},
              {"title", allocated ? name(stacking) : "reserved, by use"},
              {"statistic", allocated ? "allocated" : "reserved"},
              {"components", std::move(list)}};
      if (const auto rest = MemoryLevels::rest_component(stacking)) of["rest"] = *rest;
      stackings.push_back(std::move(of));
    }
    out["memory"] = {{"first", (run_.allocator.front().time - p_.memory_origin).count},
                     {"last", (run_.allocator.back().time - p_.memory_origin).count},
                     {"events", run_.allocator.size()},
                     {"levels", std::move(levels)},
                     {"stackings", std::move(stackings)}};
    peaks_and_marks(out);
  }

  void peaks_and_marks(Json& out) const {
    const MemoryState before = before_first(run_);
    MemoryState state = before;
    Peaks all;
    all.raise(state, (run_.allocator.front().time - p_.memory_origin).count);
    std::vector<const StepRecord*> steps;
    for (const StepRecord& step : run_.steps)
      if (on_memory(step.recording)) steps.push_back(&step);
    std::vector<Peaks> of_step(steps.size());
    std::size_t next = 0, now = steps.size();
    for (const AllocatorRecord& record : run_.allocator) {
      const std::int64_t time = (record.time - p_.memory_origin).count;
      while (next < steps.size() && record.time >= steps[next]->start) {
        now = next++;
        of_step[now].raise(state, (steps[now]->start - p_.memory_origin).count);
      }
      apply(run_, record, state);
      all.raise(state, time);
      if (now < steps.size() && record.time <= steps[now]->end) of_step[now].raise(state, time);
    }
    const auto first = statistics_of(before);
    for (std::size_t k = 0; k < first.size(); ++k) out["memory"]["begin"][std::string(kStatistics[k])] = first[k];
    out["memory"]["peaks"] = all.json();
    std::size_t place = 0;
    for (Json& step : out["steps"])
      if (step["memory"].get<bool>()) step["peaks"] = of_step[place++].json();
    marks(out);
  }

  /// Segments given back (one mark for those that follow each other without an allocation between them), and memory
  /// that could not be had. A step that counted retries says what giving back was for.
  void marks(Json& out) const {
    struct Mark {
      bool oom;
      Nanoseconds time;
      std::uint64_t count;
      Bytes bytes;
    };
    std::vector<Mark> marks;
    bool follows = false;
    for (const AllocatorRecord& record : run_.allocator) {
      const bool released = record.action == Action::segment_free || record.action == Action::segment_unmap;
      const bool oom = record.action == Action::oom;
      if (released && follows) {
        ++marks.back().count;
        marks.back().bytes += record.size;
      } else if (released || oom) {
        marks.push_back({oom, record.time, 1, record.size});
      }
      follows = released;
    }
    if (marks.size() > kMaxMarks) {
      std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
        return std::pair(a.oom, a.bytes) > std::pair(b.oom, b.bytes);
      });
      marks.resize(kMaxMarks);
      std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.time < b.time; });
    }
    out["marks"] = Json::array();
    for (const Mark& mark : marks) {
      bool retry = false;
      for (const StepRecord& step : run_.steps)
        retry |=
            on_memory(step.recording) && step.num_alloc_retries > 0 && mark.time >= step.start && mark.time <= step.end;
      out["marks"].push_back({{"kind", mark.oom ? "oom"
                                       : retry  ? "retry"
                                                : "released"},
                              {"time", (mark.time - p_.memory_origin).count},
                              {"count", mark.count},
                              {"bytes", mark.bytes}});
    }
  }

  void blocks(Json& out) const {
    Json classes = Json::array();
    for (const BlockClass& of : p_.blocks->classes()) {
      Json starts = Json::array();
      for (std::size_t i = 0; i < of.lives.size(); i += kTileRows)
        starts.push_back(p_.blocks->lives()[of.lives[i]].made);
      classes.push_back({{"shortest", of.shortest.count}, {"starts", std::move(starts)}});
    }
    Json merged = Json::array();
    for (const MergedLevel& level : p_.blocks->merged()) {
      Json starts = Json::array();
      for (std::size_t i = 0; i < level.entries.size(); i += kTileRows) starts.push_back(level.entries[i].from);
      merged.push_back({{"width", level.width.count}, {"starts", std::move(starts)}});
    }
    Json ranges = Json::array();
    for (const AddressRange& range : p_.blocks->axis().ranges())
      ranges.push_back({{"base", fmt::format("{:x}", range.base)}, {"size", range.size}, {"place", range.place}});
    out["blocks"] = {{"count", p_.blocks->lives().size()},
                     {"classes", std::move(classes)},
                     {"merged", std::move(merged)},
                     {"ranges", std::move(ranges)},
                     {"length", p_.blocks->axis().length()}};
  }

  void tracks(Json& out) const {
    out["lanes"] = Json::array();
    for (const LaneInfo& lane : p_.tracks.lanes())
      out["lanes"].push_back({{"name", lane.name}, {"source", name(lane.source)}, {"ops", lane.ops}});
    out["tracks"] = Json::array();
    for (const Track& track : p_.tracks.tracks()) {
      Json levels = Json::array();
      for (const TrackLevel& level : track.levels) {
        Json starts = Json::array();
        for (std::size_t i = 0; i < level.bars.size(); i += kTileRows) starts.push_back(level.bars[i].start);
        levels.push_back({{"width", level.width.count}, {"starts", std::move(starts)}});
      }
      out["tracks"].push_back({{"lane", track.lane}, {"levels", std::move(levels)}});
    }
    std::array<bool, kLaneClasses> used{};
    for (const Track& track : p_.tracks.tracks())
      for (const TrackBar& bar : track.levels.back().bars) used[bar.lane_class] = true;
    out["used_classes"] = Json::array();
    for (std::size_t i = 0; i < used.size(); ++i)
      if (used[i]) out["used_classes"].push_back(i);
    Nanoseconds last{0};
    for (const DeviceOpRecord& op : run_.device_ops) last = std::max(last, op.end - p_.lane_origin);
    for (const HostOpRecord& op : run_.host_ops) last = std::max(last, op.end - p_.lane_origin);
    Nanoseconds first = last;
    for (const DeviceOpRecord& op : run_.device_ops)
      first = std::min({first, op.issue - p_.lane_origin, op.start - p_.lane_origin});
    for (const HostOpRecord& op : run_.host_ops) first = std::min(first, op.start - p_.lane_origin);
    out["lanes_span"] = {{"first", first.count}, {"last", last.count}};
    out["device_ops"] = run_.device_ops.size();
    out["host_ops"] = run_.host_ops.size();
    out["rank_map"] = !p_.ranks.empty();
  }

  const PackParts& p_;
  const Run& run_;
};

}  // namespace

std::string meta_json(const PackParts& parts) {
  return text_of(Meta(parts).json());
}

std::string names_json(const PackParts& parts) {
  return text_of(Json(parts.names.texts()));
}

}  // namespace foreshard::viz
