// Sorted stretches of time that do not overlap.
//
// Who: core/straggler and core/explain_time. Pure.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard {

using TimeSpan = std::pair<Nanoseconds, Nanoseconds>;
using TimeSpans = std::vector<TimeSpan>;

/// Any spans, sorted and joined where they touch.
[[nodiscard]] inline TimeSpans united(TimeSpans spans) {
  std::sort(spans.begin(), spans.end());
  TimeSpans out;
  for (const TimeSpan& span : spans) {
    if (!out.empty() && span.first <= out.back().second)
      out.back().second = std::max(out.back().second, span.second);
    else
      out.push_back(span);
  }
  return out;
}

/// The parts of [from, to) that they cover.
[[nodiscard]] inline TimeSpans within(const TimeSpans& spans, Nanoseconds from, Nanoseconds to) {
  TimeSpans out;
  auto it = std::upper_bound(spans.begin(), spans.end(), from,
                             [](Nanoseconds time, const TimeSpan& span) { return time < span.second; });
  for (; it != spans.end() && it->first < to; ++it)
    out.emplace_back(std::max(it->first, from), std::min(it->second, to));
  return out;
}

[[nodiscard]] inline Nanoseconds length(const TimeSpans& spans) {
  Nanoseconds sum;
  for (const TimeSpan& span : spans) sum += span.second - span.first;
  return sum;
}

}  // namespace foreshard
