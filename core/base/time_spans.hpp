// Sorted stretches of time that do not overlap.
//
// Who: core/straggler, core/explain_time, core/timeline, sim/predict and sim/calibrate. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
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

/// length(within(spans, from, to)).
[[nodiscard]] inline Nanoseconds covered(const TimeSpans& spans, Nanoseconds from, Nanoseconds to) {
  Nanoseconds sum;
  auto it = std::upper_bound(spans.begin(), spans.end(), from,
                             [](Nanoseconds time, const TimeSpan& span) { return time < span.second; });
  for (; it != spans.end() && it->first < to; ++it) sum += std::min(it->second, to) - std::max(it->first, from);
  return sum;
}

/// For how long both of them last.
[[nodiscard]] inline Nanoseconds overlap(const TimeSpans& a, const TimeSpans& b) {
  Nanoseconds sum;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Nanoseconds begin = std::max(a[i].first, b[j].first), end = std::min(a[i].second, b[j].second);
    if (begin < end) sum += end - begin;
    (a[i].second < b[j].second ? i : j) += 1;
  }
  return sum;
}

[[nodiscard]] inline Nanoseconds length(const TimeSpans& spans) {
  Nanoseconds sum;
  for (const TimeSpan& span : spans) sum += span.second - span.first;
  return sum;
}

}  // namespace foreshard
