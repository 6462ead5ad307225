// What holds of every explanation of a step's time, whatever the run.
#pragma once

#include <string>

#include "core/explain_time/critical_path.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/explain_time/time_explanation.hpp"

namespace foreshard::test {

/// The first thing that does not hold; empty: all does.
inline std::string time_parts_fault(const Run& run, const TimeExplanation& e) {
  if (e.begin > e.end) return "the step ends before it begins";
  Nanoseconds idle, at = e.begin;
  std::size_t part = 0;
  for (std::size_t g = 0; g < e.gaps.size(); ++g) {
    const IdleGap& gap = e.gaps[g];
    const std::string where = "gap " + std::to_string(g);
    if (gap.start < at || gap.end <= gap.start || gap.end > e.end) return where + " is out of order";
    if (gap.first_part != part || gap.parts == 0) return where + " does not follow its neighbour's parts";
    Nanoseconds inside = gap.start;
    for (; part < gap.first_part + gap.parts; ++part) {
      const IdlePart& p = e.parts[part];
      if (p.gap != g || p.start != inside || p.end <= p.start) return where + ": its parts leave a hole";
      if (p.op != kNoDeviceOp && p.op >= run.device_ops.size()) return where + ": no such op";
      if (p.behind != kNoDeviceOp && p.behind >= run.device_ops.size()) return where + ": behind no such op";
      if (p.cause != IdleCause::late_rank && p.rank) return where + ": a rank without being late";
      inside = p.end;
      idle += p.length();
    }
    if (inside != gap.end) return where + ": its parts end early";
    at = gap.end;
  }
  if (part != e.parts.size()) return "parts of no gap";
  if (idle != e.idle()) return "the parts do not add up to step - compute";
  if (e.exposed_communication > e.communication || e.exposed_communication > idle) return "too much is exposed";
  Nanoseconds path;
  for (const PathRow& row : critical_path(run, e))
    for (const PathStretch& stretch : row.pattern) path += stretch.time;
  if (path != e.length()) return "the critical path does not add up to the step";
  const PhaseTime phases = total(phase_times(run, e));
  if (phases.compute != e.compute) return "the phases do not compute as long as the step";
  if (phases.exposed_communication != e.exposed_communication) return "the phases expose something else";
  if (phases.sum() != e.length()) return "the phases do not add up to the step";
  Nanoseconds exposed, host;
  for (const IdlePart& p : e.parts) {
    if (p.exposed > p.length() || p.exposed.count < 0) return "a part is exposed for longer than it is";
    exposed += p.exposed;
    if (is_host(p.cause)) host += p.length() - p.exposed;
  }
  if (exposed != e.exposed_communication) return "the parts expose something else";
  if (phases.host != host) return "the phases' host is not the causes'";
  if (phases.contention > phases.compute || phases.allocator > phases.host) return "a share is more than its whole";
  return {};
}

}  // namespace foreshard::test
