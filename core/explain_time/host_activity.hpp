// What the host did while the GPU had nothing to run. Private to core/explain_time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/time_spans.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"

namespace foreshard::explain_time_detail {

/// A piece of host time with its cause: issuing, allocator or synchronize.
struct HostPiece {
  Nanoseconds start;
  Nanoseconds end;
  IdleCause cause = IdleCause::issuing;
  LabelId during;  ///< the innermost range, else the runtime call, in the middle of it; invalid: none was recorded
  std::string phase = {};  ///< that the host was in; empty: between phases
};

class HostActivity {
 public:
  HostActivity(const Run& run, Recording recording);

  /// [from, to) without holes, by time, cut where phases begin and end. What the caching allocator holds up
  /// (core/timeline/allocator_waits.hpp) goes before synchronisation.
  [[nodiscard]] std::vector<HostPiece> pieces(Nanoseconds from, Nanoseconds to) const;
  /// The innermost range that began before a moment and has not ended before it, without NCCL's own; invalid: none.
  [[nodiscard]] LabelId range_at(Nanoseconds time) const;
  /// The forwards of a step, as they stand in the run.
  [[nodiscard]] const TimeSpans& forwards(std::int32_t step) const;
  /// Whether the run has ranges of FSDP2 (FSDP::…).
  [[nodiscard]] bool has_ranges() const { return has_ranges_; }

 private:
  struct Range {
    Nanoseconds start;
    Nanoseconds end;
    LabelId label;
  };
  [[nodiscard]] static LabelId innermost(const std::vector<Range>& ranges, Nanoseconds time);

  [[nodiscard]] std::vector<HostPiece> by_phase(std::vector<HostPiece> pieces) const;

  struct Phase {
    Nanoseconds start;
    Nanoseconds end;
    std::string name;
  };
  [[nodiscard]] std::string phase_at(Nanoseconds time) const;

  std::vector<Phase> phases_;            // by start
  std::vector<Nanoseconds> phase_ends_;  // and begins, sorted
  std::map<std::int32_t, TimeSpans> forwards_;
  TimeSpans allocator_;
  TimeSpans synchronize_;
  std::vector<Range> ranges_;  // by start
  std::vector<Range> calls_;   // by start
  bool has_ranges_ = false;
};

}  // namespace foreshard::explain_time_detail
