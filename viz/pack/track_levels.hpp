// What ran when, at several levels of detail: lanes of the host's threads and of the device's streams.
//
// Used by pack.cpp. Pure; deterministic. A lane has one track for each depth of nesting (host calls nest; ops of one
// stream overlap where a profiler's clocks do), so that bars of a track follow one another. On a level, bars
// narrower than its width that follow each other within half of it are one bar, of one class, or (up to two widths)
// of the class with most time in it: the rule of viz/scene/lanes.hpp. The last level keeps every op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "viz/pack/tables.hpp"
#include "viz/scene/op_facts.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::viz {

/// The classes of viz/scene/palette.hpp, and those that only a page has room for.
inline constexpr std::uint8_t kAnnotationClass = kOpClasses;
inline constexpr std::uint8_t kCpuOpClass = kOpClasses + 1;
inline constexpr std::uint8_t kHostWorkClass = kOpClasses + 2;
inline constexpr std::size_t kLaneClasses = kOpClasses + 3;
[[nodiscard]] Style lane_style(std::uint8_t lane_class);

/// Which table of the run a track's ids are rows of. `issues`: device ops, drawn when the host issued them. `rank_ops`:
/// of ranks whose ops are not device ops of the run.
enum class TrackSource : std::uint8_t { device_ops = 0, host_ops = 1, issues = 2, rank_ops = 3 };

}  // namespace foreshard::viz

namespace foreshard {

/// As meta.lanes has them.
template <>
struct EnumNames<viz::TrackSource> {
  static constexpr std::array<std::string_view, 4> kNames{"device", "host", "issues", "rank"};
};
static_assert(names_end_with(viz::TrackSource::rank_ops));

}  // namespace foreshard

namespace foreshard::viz {

struct TrackBar {
  std::int64_t start = 0;  ///< from the origin
  std::int64_t end = 0;
  std::int64_t busy = 0;  ///< sum of its ops' lengths
  std::uint32_t count = 1;
  std::uint32_t id = 0;  ///< of its first op
  std::uint8_t lane_class = 0;
};

struct TrackLevel {
  Nanoseconds width;           ///< 0: every op
  std::vector<TrackBar> bars;  ///< by start
};

struct Track {
  std::size_t lane = 0;
  std::vector<TrackLevel> levels;
};

struct LaneInfo {
  std::string name;
  TrackSource source = TrackSource::device_ops;
  std::uint64_t ops = 0;
};

class TrackLevels {
 public:
  TrackLevels(const Run& run, const OpFacts& facts, Nanoseconds origin);

  [[nodiscard]] const std::vector<LaneInfo>& lanes() const { return lanes_; }
  /// Lane after lane, depth after depth.
  [[nodiscard]] const std::vector<Track>& tracks() const { return tracks_; }
  /// Of kTrack.
  [[nodiscard]] ColumnTable tile(std::size_t track, std::size_t level, std::size_t tile) const;
  /// Of kTotals, whose lists are by class; of the level with every op.
  [[nodiscard]] ColumnTable totals(std::size_t track) const;
  /// Which track shows a device op, or a host op; none: kNoTrack.
  [[nodiscard]] const std::vector<std::uint32_t>& track_of_device_op() const { return device_track_; }
  [[nodiscard]] const std::vector<std::uint32_t>& track_of_host_op() const { return host_track_; }
  static constexpr std::uint32_t kNoTrack = 0xffffffffu;

 private:
  void add_lane(LaneInfo lane, std::vector<TrackBar> bars);
  void add_host_lanes();
  void add_issues();
  void add_streams(const OpFacts& facts);
  void add_ranks(const OpFacts& facts);
  void add_track(std::size_t lane, std::vector<TrackBar> bars);

  const Run& run_;
  Nanoseconds origin_;
  Nanoseconds length_;
  std::vector<LaneInfo> lanes_;
  std::vector<Track> tracks_;
  std::vector<std::uint32_t> device_track_, host_track_;
};

}  // namespace foreshard::viz
