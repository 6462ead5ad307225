// Memory over time at several levels of detail: the four statistics, and what they are made of.
//
// Used by pack.cpp. Pure; deterministic. A level cuts time into buckets of one width and keeps those in which
// something happened; the last level keeps every event. Tiles are made when they are asked for, by walking the
// allocator's events from a state kept at the tile's begin.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/explain/explanation.hpp"
#include "core/run/run.hpp"
#include "viz/pack/tables.hpp"
#include "viz/scene/block_groups.hpp"
#include "viz/scene/memory_state.hpp"

namespace foreshard::viz {

/// What a stack is cut by. `gap` cuts reserved memory into core/explain's parts, the others cut allocated memory.
enum class Stacking : std::uint8_t { category = 0, unit = 1, stream = 2, module = 3, op = 4, frame = 5, gap = 6 };

}  // namespace foreshard::viz

namespace foreshard {

/// As pieces are named by them.
template <>
struct EnumNames<viz::Stacking> {
  static constexpr std::array<std::string_view, 7> kNames{"category", "unit",  "stream", "module",
                                                          "operator", "frame", "gap"};
};
static_assert(names_end_with(viz::Stacking::gap));

}  // namespace foreshard

namespace foreshard::viz {

inline constexpr std::size_t kStackings = EnumNames<Stacking>::kNames.size();

struct StackComponent {
  std::string title;
  std::string colour;
};

/// A part of reserved memory: its key in `explain --json` (there with "_bytes"), and how it is shown.
struct GapPart {
  std::string_view key;
  Style style;
};
/// From the axis up.
[[nodiscard]] std::span<const GapPart> gap_parts();

struct MemoryTile {
  std::size_t first_event = 0;  ///< of Run::allocator
  std::size_t end_event = 0;
  Nanoseconds start;        ///< of its first entry, from the origin
  std::size_t entries = 0;  ///< rows of the piece
};

struct MemoryLevel {
  Nanoseconds width;  ///< of a bucket; 0: every event
  std::vector<MemoryTile> tiles;
};

/// Where everything is at one moment, as the stacks have it.
struct StackedState {
  MemoryState memory;
  std::vector<std::int64_t> unit, stream;              ///< allocated bytes by component
  std::array<std::vector<std::int64_t>, 3> of_groups;  ///< the same, by viz::GroupBy
};

class MemoryLevels {
 public:
  /// `run` must outlive it. Times count from `origin`.
  MemoryLevels(const Run& run, Nanoseconds origin);

  [[nodiscard]] const std::vector<MemoryLevel>& levels() const { return levels_; }
  /// From the axis up. Empty: the run does not have this stacking.
  [[nodiscard]] const std::vector<StackComponent>& components(Stacking stacking) const {
    return components_[static_cast<std::size_t>(stacking)];
  }
  /// By viz::GroupBy; their titles are the components of those stackings.
  [[nodiscard]] const std::array<BlockGroups, 3>& groups() const { return groups_; }
  /// Which component of a stacking has the blocks that belong to no other one: of no unit, older than the recording.
  [[nodiscard]] static std::optional<std::size_t> rest_component(Stacking stacking);
  /// Of kMemoryLines, of a level with buckets.
  [[nodiscard]] ColumnTable statistics(std::size_t level, std::size_t tile) const;
  /// Of kMemoryStack, whose lists are by component; of a level with buckets.
  [[nodiscard]] ColumnTable stack(Stacking stacking, std::size_t level, std::size_t tile) const;
  /// Of kMemoryEvents, of the last level; the page makes the statistics and every stack from it.
  [[nodiscard]] ColumnTable events(std::size_t tile) const;

 private:
  void name_components();
  void name_units();
  void name_streams();
  void name_groups();
  void index();
  void add_level(Nanoseconds width);
  /// The components of an event's block; none for events that leave allocated bytes alone.
  struct Place {
    std::size_t category, unit, stream;
    std::array<std::size_t, 3> group;  ///< by viz::GroupBy
  };
  [[nodiscard]] std::optional<Place> place(std::size_t event) const;
  void step(std::size_t event, StackedState& state) const;
  void add_gap(std::size_t first_event, ColumnTable& table) const;
  [[nodiscard]] StackedState state_before(std::size_t event) const;
  [[nodiscard]] Nanoseconds time(std::size_t event) const { return run_.allocator[event].time - origin_; }
  void values(Stacking stacking, std::size_t event, const StackedState& state, std::vector<std::int64_t>& out) const;

  const Run& run_;
  Nanoseconds origin_;
  std::vector<MemoryParts> gap_;  // after each event; empty: not known
  std::vector<UnitId> unit_of_block_;
  std::vector<std::size_t> unit_component_;    // by unit; the last: no unit
  std::vector<std::size_t> stream_component_;  // by stream; the last: any other
  std::array<BlockGroups, 3> groups_;          // by viz::GroupBy
  std::vector<StackComponent> components_[kStackings];
  std::vector<StackedState> checkpoints_;  // before every kCheckpoint-th event
  std::vector<MemoryLevel> levels_;
};

}  // namespace foreshard::viz
