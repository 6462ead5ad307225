// What ran when: the device's streams and the host's calls as bars, as fine as a picture can show them.
//
// Used by lane_chart.hpp. Pure; deterministic. Level of detail: ops narrower than a pixel that follow each other
// within half a pixel become one bar, of one class, or (up to two pixels) of the class with most time in it, with
// the others' shares. Its title carries the count: the bars' counts add up to the ops of the window.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/run/run.hpp"
#include "viz/scene/palette.hpp"
#include "viz/scene/window.hpp"

namespace foreshard::viz {

struct Bar {
  Nanoseconds start;  ///< from the origin
  Nanoseconds end;
  OpClass op_class = OpClass::memory_bound;
  bool other_step = false;  ///< the host issued it in another step than those asked for
  std::uint64_t count = 1;
  std::string title;  ///< name, start, duration, unit
  std::string label;  ///< short, drawn inside where it fits; may be empty
  /// Of several ops: other classes that have a tenth of their time or more, with their shares.
  std::vector<std::pair<OpClass, double>> others = {};
};

struct Lane {
  std::string name;
  std::vector<Bar> bars;  ///< by start
  std::uint64_t ops = 0;
};

/// A stretch with a name: a phase as the host or the device sees it.
struct Stretch {
  std::string name;
  Nanoseconds start;  ///< from the origin
  Nanoseconds end;
  bool other_step = false;
  std::int32_t step = -1;  ///< that the phase is of
};

/// Lanes with ops in the window: the host first, compute, FSDP's streams in the order of their work, then others.
[[nodiscard]] std::vector<Lane> read_lanes(const Run& run, const Side& side, const Window& window, Nanoseconds pixel);

/// The phases of the side's recording on the host's time.
[[nodiscard]] std::vector<Stretch> host_phases(const Run& run, const Side& side, const Window& window);
/// The phases by what they issued to the compute stream: from the first op's start to the last op's end.
[[nodiscard]] std::vector<Stretch> device_phases(const Run& run, const Side& side, const Window& window);

}  // namespace foreshard::viz
