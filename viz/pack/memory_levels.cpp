#include "viz/pack/memory_levels.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/base/check.hpp"
#include "core/run/block_units.hpp"
#include "viz/pack/level_widths.hpp"

namespace foreshard::viz {
namespace {

using Action = AllocatorAction;

constexpr std::size_t kCheckpoint = 4096;
/// Rows of memory are wide: fewer levels than lanes and blocks have, at most 16 buckets a pixel.
constexpr std::int64_t kFinerMemory = 16;
/// More units than this cannot be told apart by colour: the smallest are drawn as one.
constexpr std::size_t kMaxUnits = 36;

constexpr std::array kGroupings{GroupBy::module, GroupBy::op, GroupBy::frame};
constexpr Stacking stacking_by(GroupBy by) {
  return static_cast<Stacking>(static_cast<std::size_t>(Stacking::module) + static_cast<std::size_t>(by));
}

/// More names than this cannot be told apart by colour: the smallest are drawn as one.
constexpr std::size_t kMaxComponents = 24;

/// Of units, streams and groups: those who name them begin with it.
constexpr std::size_t kRestComponent = 0;

constexpr std::array<GapPart, 7> kGapParts{{{"requested", {"requested (live blocks)", "#0072b2"}},
                                            {"rounding", {"rounding", "#a9d9f5"}},
                                            {"pending_free", {"pending free", "#d55e00"}},
                                            {"hard_fragmentation", {"hard fragmentation", "#cc79a7"}},
                                            {"soft_fragmentation", {"soft fragmentation", "#f0e442"}},
                                            {"stream_fragmentation", {"stream fragmentation", "#e69f00"}},
                                            {"private_pools", {"in private pools, not allocated", "#8c8c8c"}}}};

/// In the order of kGapParts.
std::array<std::int64_t, kGapParts.size()> gap_values(const MemoryParts& parts) {
  const auto at = [](Bytes bytes) { return static_cast<std::int64_t>(bytes); };
  return {at(parts.requested), at(parts.rounding), at(parts.pending_free), at(parts.hard),
          at(parts.soft),      at(parts.stream),   at(parts.private_pool)};
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  std::int64_t out = 0;
  for (const std::int64_t value : values) out += value;
  return out;
}

/// Calls `close(time of the bucket)` when an event falls into another bucket than the one before.
class Buckets {
 public:
  explicit Buckets(Nanoseconds width) : width_(width.count) {}
  /// Whether the event opens a bucket.
  bool opens(Nanoseconds time) {
    // From the origin, which may lie behind the first event: floor, not truncation.
    const std::int64_t at = time.count >= 0 ? time.count / width_ : -((-time.count + width_ - 1) / width_);
    const bool opens = !any_ || at != at_;
    any_ = true;
    at_ = at;
    return opens;
  }

 private:
  std::int64_t width_;
  std::int64_t at_ = 0;
  bool any_ = false;
};

}  // namespace

std::span<const GapPart> gap_parts() {
  return kGapParts;
}

std::optional<std::size_t> MemoryLevels::rest_component(Stacking stacking) {
  if (stacking == Stacking::category || stacking == Stacking::gap) return std::nullopt;
  return kRestComponent;
}

MemoryLevels::MemoryLevels(const Run& run, Nanoseconds origin) : run_(run), origin_(origin) {
  if (auto gap = gap_series(run); gap && gap->size() == run.allocator.size()) gap_ = std::move(*gap);
  name_components();
  index();
}

void MemoryLevels::name_components() {
  auto& categories = components_[static_cast<std::size_t>(Stacking::category)];
  for (const MemoryCategory category : stack_order())
    categories.push_back({std::string(style(category).title), std::string(style(category).fill)});
  name_units();
  name_streams();
  name_groups();
  auto& parts = components_[static_cast<std::size_t>(Stacking::gap)];
  if (!gap_.empty())
    for (const GapPart& part : kGapParts)
      parts.push_back({std::string(part.style.title), std::string(part.style.fill)});
}

void MemoryLevels::name_units() {
  unit_of_block_ = block_units(run_);
  // The most bytes that each unit's blocks add up to say which units are shown by themselves.
  std::vector<std::int64_t> now(run_.units.size() + 1), most(now.size());
  for (const AllocatorRecord& record : run_.allocator) {
    if (record.action != Action::alloc && record.action != Action::free_requested) continue;
    const bool known = record.block.value < run_.blocks.size();
    const std::size_t unit =
        std::min<std::size_t>(known ? unit_of_block_[record.block.value].value : now.size(), now.size() - 1);
    now[unit] += (record.action == Action::alloc ? 1 : -1) * block_bytes(run_, record).size;
    most[unit] = std::max(most[unit], now[unit]);
  }
  std::vector<std::size_t> order(run_.units.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return most[a] > most[b]; });
  std::vector<bool> shown(run_.units.size());
  for (std::size_t i = 0; i < std::min(order.size(), kMaxUnits); ++i) shown[order[i]] = most[order[i]] > 0;

  auto& components = components_[static_cast<std::size_t>(Stacking::unit)];
  components.push_back({"no unit", std::string(kRestColour)});
  unit_component_.assign(run_.units.size() + 1, kRestComponent);
  for (std::size_t i = 0; i < run_.units.size(); ++i) {
    if (!shown[i]) continue;
    unit_component_[i] = components.size();
    const std::string& name = run_.units[i].name;
    components.push_back({name.empty() ? "root" : name, std::string(group_colour(components.size() - 1))});
  }
  const bool rest = order.size() > kMaxUnits && most[order[kMaxUnits]] > 0;
  for (std::size_t i = 0; i < run_.units.size(); ++i)
    if (rest && !shown[i]) unit_component_[i] = components.size();
  if (rest) components.push_back({"smaller units", std::string(kOthersColour)});
}

void MemoryLevels::name_streams() {
  auto& components = components_[static_cast<std::size_t>(Stacking::stream)];
  components.push_back({"older than the recording", std::string(kRestColour)});
  stream_component_.assign(run_.streams.size() + 1, kRestComponent);
  std::vector<bool> used(run_.streams.size());
  for (const BlockRecord& block : run_.blocks)
    for (std::size_t i = 0; i < run_.streams.size(); ++i)
      if (run_.streams[i].id == block.stream) used[i] = true;
  for (std::size_t i = 0; i < run_.streams.size(); ++i) {
    if (!used[i]) continue;
    stream_component_[i] = components.size();
    components.push_back({run_.streams[i].name, std::string(group_colour(components.size() - 1))});
  }
}

void MemoryLevels::name_groups() {
  for (const GroupBy by : kGroupings) {
    BlockGroups& groups = groups_[static_cast<std::size_t>(by)];
    groups = group_blocks(run_, by, kMaxComponents);
    if (!groups.any()) continue;
    auto& components = components_[static_cast<std::size_t>(stacking_by(by))];
    for (const std::string& title : groups.titles) {
      const bool others = components.size() > kMaxComponents;
      components.push_back({title, std::string(components.empty() ? kRestColour
                                               : others           ? kOthersColour
                                                                  : group_colour(components.size() - 1))});
    }
  }
}

std::optional<MemoryLevels::Place> MemoryLevels::place(std::size_t event) const {
  const AllocatorRecord& record = run_.allocator[event];
  if (record.action != Action::alloc && record.action != Action::free_requested) return std::nullopt;
  const auto& order = stack_order();
  Place out{0, kRestComponent, kRestComponent, {kRestComponent, kRestComponent, kRestComponent}};
  const MemoryCategory category = block_bytes(run_, record).category;
  out.category = static_cast<std::size_t>(std::find(order.begin(), order.end(), category) - order.begin());
  if (record.block.value >= run_.blocks.size()) return out;
  const BlockRecord& block = run_.blocks[record.block.value];
  out.unit = unit_component_[std::min<std::size_t>(unit_of_block_[record.block.value].value, run_.units.size())];
  for (std::size_t i = 0; i < run_.streams.size(); ++i)
    if (run_.streams[i].id == block.stream) out.stream = stream_component_[i];
  for (std::size_t k = 0; k < groups_.size(); ++k) out.group[k] = groups_[k].of_block[record.block.value];
  return out;
}

void MemoryLevels::step(std::size_t event, StackedState& state) const {
  const std::int64_t before = state.memory.allocated;
  apply(run_, run_.allocator[event], state.memory);
  if (const auto of = place(event)) {
    state.unit[of->unit] += state.memory.allocated - before;
    state.stream[of->stream] += state.memory.allocated - before;
    for (std::size_t k = 0; k < groups_.size(); ++k)
      state.of_groups[k][of->group[k]] += state.memory.allocated - before;
  }
}

void MemoryLevels::index() {
  StackedState state;
  state.memory = before_first(run_);
  state.unit.assign(components(Stacking::unit).size(), 0);
  state.stream.assign(components(Stacking::stream).size(), 0);
  state.unit[kRestComponent] = state.stream[kRestComponent] = state.memory.allocated;
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    state.of_groups[k].assign(groups_[k].titles.size(), 0);
    state.of_groups[k][kRestComponent] = state.memory.allocated;
  }
  for (std::size_t event = 0; event < run_.allocator.size(); ++event) {
    if (event % kCheckpoint == 0) checkpoints_.push_back(state);
    step(event, state);
  }
  if (run_.allocator.empty()) return;
  const std::size_t all = run_.allocator.size();
  Nanoseconds width = coarsest_width(run_.allocator.back().time - run_.allocator.front().time);
  for (; all > kTileRows && width.count > 1; width = {std::max<std::int64_t>(width.count / kFinerMemory, 1)}) {
    add_level(width);
    std::size_t entries = 0;
    for (const MemoryTile& tile : levels_.back().tiles) entries += tile.entries;
    if (entries * 4 <= all) continue;
    levels_.pop_back();  // as many rows as events, nearly, and wider ones
    break;
  }
  MemoryLevel every{{}, {}};
  for (std::size_t first = 0; first < all; first += kTileRows) {
    const std::size_t end = std::min(first + kTileRows, all);
    every.tiles.push_back({first, end, time(first), end - first});
  }
  levels_.push_back(std::move(every));
}

void MemoryLevels::add_level(Nanoseconds width) {
  MemoryLevel level{width, {}};
  Buckets buckets(width);
  for (std::size_t event = 0; event < run_.allocator.size(); ++event) {
    if (buckets.opens(time(event))) {
      if (level.tiles.empty() || level.tiles.back().entries == kTileRows)
        level.tiles.push_back({event, event, time(event), 0});
      ++level.tiles.back().entries;
    }
    level.tiles.back().end_event = event + 1;
  }
  levels_.push_back(std::move(level));
}

StackedState MemoryLevels::state_before(std::size_t event) const {
  StackedState state = checkpoints_[event / kCheckpoint];
  for (std::size_t i = event / kCheckpoint * kCheckpoint; i < event; ++i) step(i, state);
  return state;
}

ColumnTable MemoryLevels::statistics(std::size_t level, std::size_t tile) const {
  const MemoryTile& of = levels_[level].tiles[tile];
  StackedState state = state_before(of.first_event);
  ColumnTable table(kMemoryLines);
  Column& times = table["time"];
  struct Statistic {
    Column &most, &least, &last;
  };
  std::vector<Statistic> columns;
  for (const std::string_view name : kStatistics)
    columns.push_back({table[fmt::format("{}_most", name)], table[fmt::format("{}_least", name)],
                       table[fmt::format("{}_last", name)]});
  Buckets buckets(levels_[level].width);
  for (std::size_t event = of.first_event; event < of.end_event; ++event) {
    const auto before = statistics_of(state.memory);
    step(event, state);
    const auto after = statistics_of(state.memory);
    const bool opens = buckets.opens(time(event));
    if (opens) times.push_back(time(event).count);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      auto& [most, least, last] = columns[k];
      if (opens)
        for (Column* column : {&most, &least, &last}) column->push_back(before[k]);
      most.back() = std::max(most.back(), after[k]);
      least.back() = std::min(least.back(), after[k]);
      last.back() = after[k];
    }
  }
  return table;
}

void MemoryLevels::values(Stacking stacking, std::size_t event, const StackedState& state,
                          std::vector<std::int64_t>& out) const {
  switch (stacking) {
    case Stacking::category:
      for (std::size_t i = 0; i < kCategories; ++i)
        out[i] = state.memory.category[static_cast<std::size_t>(stack_order()[i])];
      break;
    case Stacking::unit:
      out = state.unit;
      break;
    case Stacking::stream:
      out = state.stream;
      break;
    case Stacking::module:
    case Stacking::op:
    case Stacking::frame:
      out = state.of_groups[static_cast<std::size_t>(stacking) - static_cast<std::size_t>(Stacking::module)];
      break;
    case Stacking::gap: {
      const auto parts = gap_values(gap_[event]);
      out.assign(parts.begin(), parts.end());
      break;
    }
  }
}

ColumnTable MemoryLevels::stack(Stacking stacking, std::size_t level, std::size_t tile) const {
  const MemoryTile& of = levels_[level].tiles[tile];
  const std::size_t count = components(stacking).size();
  FORESHARD_CHECK(count > 0, "only stackings that the run has are asked for");
  StackedState state = state_before(of.first_event);
  ColumnTable table(kMemoryStack, {.list_length = count});
  Column& times = table["time"];
  const std::span<Column> at_highest = table.list("highest"), last = table.list("last");
  std::vector<std::int64_t> now(count);
  if (stacking != Stacking::gap || of.first_event > 0)
    values(stacking, of.first_event == 0 ? 0 : of.first_event - 1, state, now);
  Buckets buckets(levels_[level].width);
  std::int64_t highest = 0;
  for (std::size_t event = of.first_event; event < of.end_event; ++event) {
    if (buckets.opens(time(event))) {
      times.push_back(time(event).count);
      // The state that the bucket begins with counts too, where it is the highest.
      for (std::size_t i = 0; i < count; ++i) {
        at_highest[i].push_back(now[i]);
        last[i].push_back(now[i]);
      }
      highest = sum(now);
    }
    step(event, state);
    values(stacking, event, state, now);
    const std::int64_t total = sum(now);
    for (std::size_t i = 0; i < count; ++i) {
      if (total > highest) at_highest[i].back() = now[i];
      last[i].back() = now[i];
    }
    highest = std::max(highest, total);
  }
  return table;
}

void MemoryLevels::add_gap(std::size_t first_event, ColumnTable& table) const {
  const Column &allocated = table["allocated"], &pending = table["pending"], &reserved = table["reserved"];
  const RowRange rows{0, allocated.size()};
  const auto parts = [&](std::size_t i) -> const MemoryParts& { return gap_[first_event + i]; };
  table.fill("rounding", rows, [&](std::size_t i) { return parts(i).rounding; });
  table.fill("hard_fragmentation", rows, [&](std::size_t i) { return parts(i).hard; });
  table.fill("soft_fragmentation", rows, [&](std::size_t i) { return parts(i).soft; });
  table.fill("private_pools", rows, [&](std::size_t i) { return parts(i).private_pool; });
  table.fill("pending_left", rows, [&](std::size_t i) { return column_value(parts(i).pending_free) - pending[i]; });
  table.fill("stream_left", rows, [&](std::size_t i) {
    const Bytes other = parts(i).hard + parts(i).soft + parts(i).private_pool;
    return column_value(parts(i).stream) - (reserved[i] - allocated[i] - pending[i] - column_value(other));
  });
  table.fill("requested_left", rows, [&](std::size_t i) {
    return column_value(parts(i).requested) - (allocated[i] - column_value(parts(i).rounding));
  });
}

ColumnTable MemoryLevels::events(std::size_t tile) const {
  const MemoryTile& of = levels_.back().tiles[tile];
  StackedState state = state_before(of.first_event);
  ColumnTable table(kMemoryEvents, {.optional = !gap_.empty()});
  Column& before = table["category_before"];
  before.resize(components(Stacking::category).size());
  values(Stacking::category, 0, state, before);
  table["unit_before"] = state.unit;
  table["stream_before"] = state.stream;
  for (const GroupBy by : kGroupings)
    table[fmt::format("{}_before", name(by))] = state.of_groups[static_cast<std::size_t>(by)];
  Column &times = table["time"], &allocated = table["allocated"], &pending = table["pending"];
  Column &reserved = table["reserved"], &rounding_active = table["rounding_active"];
  Column &category = table["category"], &unit = table["unit"], &stream = table["stream"];
  for (std::size_t event = of.first_event; event < of.end_event; ++event) {
    step(event, state);
    const MemoryState& now = state.memory;
    times.push_back(time(event).count);
    allocated.push_back(now.allocated);
    pending.push_back(now.active - now.allocated);
    reserved.push_back(now.reserved);
    rounding_active.push_back(now.active - now.requested);
    const auto in = place(event);
    category.push_back(in ? column_value(in->category) : -1);
    unit.push_back(in ? column_value(in->unit) : -1);
    stream.push_back(in ? column_value(in->stream) : -1);
    for (const GroupBy by : kGroupings)
      table[name(by)].push_back(in ? column_value(in->group[static_cast<std::size_t>(by)]) : -1);
  }
  if (!gap_.empty()) add_gap(of.first_event, table);
  return table;
}

}  // namespace foreshard::viz
