#include "core/timeline/places.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace foreshard {
namespace {

constexpr std::string_view kFsdp = "FSDP::";
constexpr std::string_view kRoot = "root";
// Ranges that name a unit (PyTorch 2.11, _fsdp_param_group.py).
constexpr std::array<std::string_view, 8> kUnitRanges{
    "pre_forward",           "post_forward",         "pre_backward", "post_backward_accumulate",
    "post_backward_reshard", "post_backward_reduce", "all_gather",   "all_gather_copy_out"};
/// Ranges nest (FSDP::pre_backward holds FSDP::all_gather) and threads interleave: this many back are looked at.
constexpr std::ptrdiff_t kDeepest = 16;

/// "pre_forward" of "FSDP::pre_forward (layers.3)"; empty for other ranges.
std::string_view kind_of(std::string_view label) {
  if (!label.starts_with(kFsdp)) return {};
  const std::string_view word = label.substr(kFsdp.size(), label.find(' ') - kFsdp.size());
  return std::find(kUnitRanges.begin(), kUnitRanges.end(), word) == kUnitRanges.end() ? std::string_view() : word;
}

std::string unit_of(std::string_view label) {
  const auto open = label.find(" (");
  if (open == std::string_view::npos || !label.ends_with(')')) return std::string(kRoot);
  return std::string(label.substr(open + 2, label.size() - open - 3));
}

template <class Spans>
const std::string& phase_at(const Spans& phases, Nanoseconds time) {
  static const std::string kNone;
  const auto after = std::upper_bound(phases.begin(), phases.end(), time,
                                      [](Nanoseconds at, const auto& span) { return at < span.start; });
  if (after == phases.begin()) return kNone;
  const auto& span = *std::prev(after);
  return time < span.end ? span.name : kNone;
}

}  // namespace

std::vector<Places::Span> Places::phases_of(const Run& run, Recording recording) {
  std::vector<Span> phases;
  for (const PhaseRecord& phase : run.phases)
    if (phase.recording == recording) phases.push_back({phase.start, phase.end, phase.name});
  std::stable_sort(phases.begin(), phases.end(), [](const Span& a, const Span& b) { return a.start < b.start; });
  return phases;
}

UnitMarks unit_marks(const Run& run, Recording recording) {
  const auto phases = Places::phases_of(run, recording);
  UnitMarks marks;
  for (const HostOpRecord& op : run.host_ops) {
    if (op.kind != HostOpRecord::Kind::annotation) continue;
    const std::string& label = run.labels.text(op.label);
    if (const std::string_view kind = kind_of(label); !kind.empty())
      marks.emplace(phase_at(phases, op.start), kind, unit_of(label));
  }
  return marks;
}

UnitMarks shared_marks(const UnitMarks& own, const UnitMarks& other) {
  std::set<std::string> units;
  std::set<std::pair<std::string, std::string>> kinds;
  for (const auto& [phase, kind, unit] : other) {
    units.insert(unit);
    kinds.emplace(phase, kind);
  }
  UnitMarks shared;
  for (const UnitMark& mark : own) {
    const auto& [phase, kind, unit] = mark;
    if (units.contains(unit) ? other.contains(mark) : kinds.contains({phase, kind})) shared.insert(mark);
  }
  return shared;
}

Places::Places(const Run& run, Recording recording, const UnitMarks& marks)
    : run_(run), phases_(phases_of(run, recording)) {
  const auto by_start = [](const Span& a, const Span& b) { return a.start < b.start; };
  std::vector<Span> cuts;
  for (const HostOpRecord& op : run.host_ops) {
    if (op.kind != HostOpRecord::Kind::annotation) continue;
    const std::string& label = run.labels.text(op.label);
    const std::string_view kind = kind_of(label);
    if (kind.empty()) continue;
    const std::string unit = unit_of(label);
    sections_.push_back({op.start, op.end, unit});
    if (marks.contains({phase_at(phases_, op.start), std::string(kind), unit}))
      cuts.push_back({op.start, op.end, label});
  }
  std::stable_sort(sections_.begin(), sections_.end(), by_start);
  std::stable_sort(cuts.begin(), cuts.end(), by_start);
  add_stretches(cuts);
}

void Places::add_stretches(const std::vector<Span>& marks) {
  std::optional<std::size_t> open_backward;  // the root's stretch since the last post-backward, its owner not known yet
  const auto begin = [&](Nanoseconds at, std::string unit) { stretches_.push_back({at, {}, std::move(unit)}); };
  for (const Span& mark : marks) {
    const std::string_view kind = kind_of(mark.name);
    const std::string unit = unit_of(mark.name);
    if (kind == "pre_forward" || kind == "pre_backward" || kind == "all_gather_copy_out") {
      begin(mark.start, unit);
      open_backward.reset();
    } else if (kind == "post_forward") {
      begin(mark.start, std::string(kRoot));
    } else if (kind == "post_backward_accumulate" || kind == "post_backward_reduce") {
      if (open_backward) stretches_[*open_backward].name = unit;
      begin(mark.start, std::string(kRoot));
      open_backward = stretches_.size() - 1;
    }
  }
}

TimeLane Places::lane(const DeviceOpRecord& op) const {
  if (op.kind == DeviceOpRecord::Kind::collective) {
    switch (op.collective) {
      case CollectiveKind::all_gather:
        return TimeLane::all_gather;
      case CollectiveKind::reduce_scatter:
        return TimeLane::reduce_scatter;
      case CollectiveKind::all_reduce:
        return TimeLane::all_reduce;
      case CollectiveKind::all_to_all:
      case CollectiveKind::broadcast:
      case CollectiveKind::reduce:
      case CollectiveKind::send_recv:
        break;  // the program's own, wherever it put them
    }
  }
  return op.stream == kComputeStream ? TimeLane::compute : TimeLane::other_streams;
}

const std::string& Places::phase(const DeviceOpRecord& op) const {
  return phase_at(phases_, op.issue);
}

std::string Places::unit(const DeviceOpRecord& op) const {
  if (const std::string& in = phase(op); in != "forward" && in != "backward" && !phases_.empty()) return {};
  if (run_.info.kind != RunKind::imported && op.unit.value < run_.units.size()) {
    const std::string& name = run_.units[op.unit.value].name;
    return name.empty() ? std::string(kRoot) : name;
  }
  const auto later = [](Nanoseconds time, const Span& span) { return time < span.start; };
  auto section = std::upper_bound(sections_.begin(), sections_.end(), op.issue, later);
  for (std::ptrdiff_t i = 0; i < kDeepest && section != sections_.begin(); ++i)
    if (--section; section->end > op.issue) return section->name;
  const auto stretch = std::upper_bound(stretches_.begin(), stretches_.end(), op.issue, later);
  return stretch == stretches_.begin() ? std::string(sections_.empty() ? "" : kRoot) : std::prev(stretch)->name;
}

void place_units(Run& run) {
  const Places places(run, Recording::trace);
  std::map<std::string, UnitId, std::less<>> units;
  for (std::uint32_t u = 0; u < run.units.size(); ++u)
    units.emplace(run.units[u].name.empty() ? std::string(kRoot) : run.units[u].name, UnitId{u});
  for (DeviceOpRecord& op : run.device_ops)
    if (const auto unit = units.find(places.unit(op)); unit != units.end()) op.unit = unit->second;
}

}  // namespace foreshard
