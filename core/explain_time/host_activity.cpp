#include "core/explain_time/host_activity.hpp"

#include <algorithm>
#include <iterator>

#include "core/timeline/allocator_waits.hpp"

namespace foreshard::explain_time_detail {
namespace {

/// Ranges nest and threads interleave: this many that began before a moment are looked at.
constexpr std::ptrdiff_t kDeepest = 32;

bool synchronizes(std::string_view call) {
  return call == "cudaEventSynchronize" || call == "cudaDeviceSynchronize" || call == "cudaStreamSynchronize";
}

}  // namespace

HostActivity::HostActivity(const Run& run, Recording recording) : allocator_(allocator_waits(run, recording)) {
  for (const PhaseRecord& phase : run.phases) {
    if (phase.recording != recording) continue;
    phase_ends_.push_back(phase.start);
    phase_ends_.push_back(phase.end);
    phases_.push_back({phase.start, phase.end, phase.name});
    if (phase.name == "forward") forwards_[phase.step].emplace_back(phase.start, phase.end);
  }
  std::stable_sort(phases_.begin(), phases_.end(), [](const Phase& a, const Phase& b) { return a.start < b.start; });
  std::sort(phase_ends_.begin(), phase_ends_.end());
  TimeSpans waits;
  for (const HostOpRecord& op : run.host_ops) {
    const std::string& label = run.labels.text(op.label);
    if (op.kind == HostOpRecord::Kind::annotation) {
      if (label.starts_with("nccl:")) continue;  // inside FSDP2's own
      has_ranges_ |= label.starts_with("FSDP::");
      ranges_.push_back({op.start, op.end, op.label});
    } else if (op.kind == HostOpRecord::Kind::runtime || op.kind == HostOpRecord::Kind::work) {
      calls_.push_back({op.start, op.end, op.label});
      if (synchronizes(label)) waits.emplace_back(op.start, op.end);
    }
  }
  synchronize_ = united(std::move(waits));
  const auto by_start = [](const Range& a, const Range& b) { return a.start < b.start; };
  std::stable_sort(ranges_.begin(), ranges_.end(), by_start);
  std::stable_sort(calls_.begin(), calls_.end(), by_start);
}

/// A plan's calls come at the end of the host work of their section, where the next section may begin; one that takes
/// no time counts where no other does.
LabelId HostActivity::innermost(const std::vector<Range>& ranges, Nanoseconds time) {
  const auto begin = std::lower_bound(ranges.begin(), ranges.end(), time,
                                      [](const Range& range, Nanoseconds at) { return range.start < at; });
  auto it = begin;
  for (std::ptrdiff_t i = 0; i < kDeepest && it != ranges.begin(); ++i)
    if ((--it)->end >= time) return it->label;
  return begin != ranges.end() && begin->start == time ? begin->label : LabelId{};
}

LabelId HostActivity::range_at(Nanoseconds time) const {
  return innermost(ranges_, time);
}

const TimeSpans& HostActivity::forwards(std::int32_t step) const {
  static const TimeSpans kNone;
  const auto found = forwards_.find(step);
  return found == forwards_.end() ? kNone : found->second;
}

/// Phases of a recording follow one another.
std::string HostActivity::phase_at(Nanoseconds time) const {
  const auto after = std::upper_bound(phases_.begin(), phases_.end(), time,
                                      [](Nanoseconds at, const Phase& phase) { return at < phase.start; });
  return after != phases_.begin() && time < std::prev(after)->end ? std::prev(after)->name : std::string();
}

std::vector<HostPiece> HostActivity::by_phase(std::vector<HostPiece> pieces) const {
  std::vector<HostPiece> out;
  for (HostPiece& piece : pieces) {
    Nanoseconds from = piece.start;
    auto cut = std::upper_bound(phase_ends_.begin(), phase_ends_.end(), from);
    for (; from < piece.end; ++cut) {
      const Nanoseconds to = cut == phase_ends_.end() ? piece.end : std::min(*cut, piece.end);
      if (to <= from) continue;
      const Nanoseconds middle{from.count + (to - from).count / 2};
      LabelId during = piece.cause == IdleCause::issuing ? range_at(middle) : innermost(calls_, middle);
      if (!during.valid()) during = piece.cause == IdleCause::issuing ? innermost(calls_, middle) : range_at(middle);
      out.push_back({from, to, piece.cause, during, phase_at(from)});
      if (cut == phase_ends_.end()) break;
      from = to;
    }
  }
  return out;
}

std::vector<HostPiece> HostActivity::pieces(Nanoseconds from, Nanoseconds to) const {
  std::vector<HostPiece> out;
  const auto add = [&](Nanoseconds start, Nanoseconds end, IdleCause cause) {
    if (end > start) out.push_back({start, end, cause, {}});
  };
  const auto rest = [&](Nanoseconds start, Nanoseconds end) {
    Nanoseconds at = start;
    for (const TimeSpan& span : within(synchronize_, start, end)) {
      add(at, span.first, IdleCause::issuing);
      add(span.first, span.second, IdleCause::synchronize);
      at = span.second;
    }
    add(at, end, IdleCause::issuing);
  };
  Nanoseconds at = from;
  for (const TimeSpan& span : within(allocator_, from, to)) {
    rest(at, span.first);
    add(span.first, span.second, IdleCause::allocator);
    at = span.second;
  }
  rest(at, to);
  return by_phase(std::move(out));
}

}  // namespace foreshard::explain_time_detail
