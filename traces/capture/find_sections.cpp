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
    default:
      return {};
  }
}

}  // namespace

Result<std::vector<SectionSpan>> find_sections(std::span<const Range> ranges, std::span<const Unit> units,
                                               const TraceCalls& calls) {
  const UnitNames names(units);
  std::vector<SectionSpan> out;
  for (const Range& range : ranges) {
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
    std::vector<const TraceCall*> inside;
    auto call = std::lower_bound(calls.calls.begin(), calls.calls.end(), range.start,
                                 [](const TraceCall& c, Nanoseconds time) { return c.start < time; });
    for (; call != calls.calls.end() && call->start < range.end; ++call)
      if (call->op_count > 0) inside.push_back(&*call);
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
