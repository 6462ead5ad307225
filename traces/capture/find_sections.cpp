#include <algorithm>
#include <string>
#include <vector>

#include "traces/capture/range_meaning.hpp"
#include "traces/capture/step_calls.hpp"

namespace foreshard::traces {
namespace {

struct SectionKind {
  bool is_section = false;
  bool sometimes = false;  // issues something only under some settings
  Section section = Section::all_gather;
};

SectionKind section_kind(RangeKind kind) {
  switch (kind) {
    case RangeKind::all_gather:
      return {true, false, Section::all_gather};
    case RangeKind::copy_out:
      return {true, false, Section::copy_out};
    case RangeKind::reduce:
      return {true, false, Section::reduce};
    case RangeKind::accumulate:
      return {true, true, Section::accumulate};
    case RangeKind::reshard:
    case RangeKind::post_forward:
      return {true, true, Section::reshard};
    case RangeKind::pre_forward:
    case RangeKind::pre_backward:
      return {true, true, Section::copy_out};
    default:
      return {};
  }
}

/// The calls in a range that put something on the GPU. Of pre-forward and pre-backward those that lie in no range
/// inside: gathering and copying out have ranges of their own but in a shard group of one rank, whose parameters are
/// copied one by one (FSDPParamGroup.wait_for_unshard).
std::vector<const TraceCall*> issuing_calls(std::span<const Range> ranges, std::size_t at, RangeKind kind,
                                            const TraceCalls& calls) {
  const Range& range = ranges[at];
  std::vector<const TraceCall*> out;
  auto call = std::lower_bound(calls.calls.begin(), calls.calls.end(), range.start,
                               [](const TraceCall& c, Nanoseconds time) { return c.start < time; });
  for (; call != calls.calls.end() && call->start < range.end; ++call)
    if (call->op_count > 0) out.push_back(&*call);
  if (kind != RangeKind::pre_forward && kind != RangeKind::pre_backward) return out;
  for (std::size_t i = at + 1; i < ranges.size() && ranges[i].start < range.end; ++i)
    std::erase_if(out, [&](const TraceCall* c) { return c->start >= ranges[i].start && c->start < ranges[i].end; });
  return out;
}

}  // namespace

Result<std::vector<SectionSpan>> find_sections(std::span<const Range> ranges, std::span<const Unit> units,
                                               const TraceCalls& calls) {
  const UnitNames names(units);
  std::vector<SectionSpan> out;
  for (std::size_t at = 0; at < ranges.size(); ++at) {
    const Range& range = ranges[at];
    const RangeMeaning meaning = meaning_of(range.name);
    const SectionKind kind = section_kind(meaning.kind);
    if (!kind.is_section) continue;
    const auto unit = names.find(meaning.unit);
    if (!unit) {
      return fail(
          ErrorKind::mismatch,
          "an annotation names the FSDP unit '" + std::string(meaning.unit) + "', which is not among the units given",
          "annotation '" + std::string(range.name) + "'",
          "give the about file that was written by the same program as this trace");
    }
    SectionSpan span{kind.section, *unit, range.start, range.end};
    const std::vector<const TraceCall*> inside = issuing_calls(ranges, at, meaning.kind, calls);
    if (inside.empty()) continue;
    if (kind.sometimes) {
      const Nanoseconds lead = inside[0]->start - range.start;
      const Nanoseconds interval = inside.size() > 1 ? inside[1]->start - inside[0]->start : lead;
      span.start = inside[0]->start - std::min(lead, interval);
      span.end = std::min(inside.back()->end, range.end);
    }
    out.push_back(span);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const SectionSpan& a, const SectionSpan& b) { return a.start < b.start; });
  return out;
}

}  // namespace foreshard::traces
