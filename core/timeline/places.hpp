// Where a device op belongs: its lane, phase and unit. Used by core/explain_time, core/compare
// and viz/graph. Pure; deterministic.
//
// Units. An op of a plan or an executed run that knows its unit has it; else that of the innermost FSDP range around
// the call that issued it; else the unit whose forward or backward is under way on the host. FSDP2's ranges tell which
// (PyTorch 2.11, _fsdp_param_group.py): a unit begins with pre_forward, pre_backward or all_gather_copy_out and ends
// with post_forward, post_backward_accumulate or post_backward_reduce; between units the root is at work. Another run
// may not have all of these: a plan has fewer kinds, and no run gathers in backward what stayed unsharded. So of two
// runs only those that both have are looked at (shared_marks()): then equal programs are cut at equal places. Backward
// work that no range opened belongs to the unit whose post-backward closes it.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/base/enum_names.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// Where device time is spent. The lanes of collectives hold them whatever stream they ran on.
enum class TimeLane : std::uint8_t {
  compute = 0,     ///< the compute stream
  all_gather = 1,  ///< collectives
  reduce_scatter = 2,
  all_reduce = 3,
  other_streams = 4,  ///< everything else: copy-in, casts, copies
  host = 5,           ///< the host's time of each phase
};
template <>
struct EnumNames<TimeLane> {
  static constexpr std::array<std::string_view, 6> kNames{"compute",    "all_gather",    "reduce_scatter",
                                                          "all_reduce", "other_streams", "host"};
};
static_assert(names_end_with(TimeLane::host));

/// A range that begins or ends a unit: the phase that the host is in, the kind ("pre_forward", …), the unit ("root").
using UnitMark = std::tuple<std::string, std::string, std::string>;
using UnitMarks = std::set<UnitMark>;

[[nodiscard]] UnitMarks unit_marks(const Run& run, Recording recording);

/// Those of `own` that `other` has as well; of a unit that `other` does not know, those of a kind that it has in that
/// phase.
[[nodiscard]] UnitMarks shared_marks(const UnitMarks& own, const UnitMarks& other);

class Places {
 public:
  /// By every range of the run.
  Places(const Run& run, Recording recording) : Places(run, recording, unit_marks(run, recording)) {}
  /// `marks`: the ranges that may begin and end units.
  Places(const Run& run, Recording recording, const UnitMarks& marks);

  [[nodiscard]] TimeLane lane(const DeviceOpRecord& op) const;
  /// By the host's call; empty outside every phase.
  [[nodiscard]] const std::string& phase(const DeviceOpRecord& op) const;
  /// The unit's name, "root", or empty.
  [[nodiscard]] std::string unit(const DeviceOpRecord& op) const;

 private:
  friend UnitMarks unit_marks(const Run& run, Recording recording);
  struct Span {
    Nanoseconds start;
    Nanoseconds end;
    std::string name;
  };
  [[nodiscard]] static std::vector<Span> phases_of(const Run& run, Recording recording);
  void add_stretches(const std::vector<Span>& marks);

  const Run& run_;
  std::vector<Span> phases_;     // by start
  std::vector<Span> sections_;   // FSDP ranges that name a unit, by start; name: the unit's
  std::vector<Span> stretches_;  // of host time, by start, one behind the other; `end` unused
};

/// Gives the device ops of an import their units (DeviceOpRecord::unit), by every range that it has. What is in no
/// unit's range, or in one of a unit that the run does not list, stays without.
void place_units(Run& run);

}  // namespace foreshard
