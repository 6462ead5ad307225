// Sorted stretches of time that do not overlap. Private to core/explain_time.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard::explain_time_detail {

using Span = std::pair<Nanoseconds, Nanoseconds>;
using Spans = std::vector<Span>;

/// Any spans, sorted and joined where they touch.
[[nodiscard]] inline Spans united(Spans spans) {
  std::sort(spans.begin(), spans.end());
  Spans out;
  for (const Span& span : spans) {
    if (!out.empty() && span.first <= out.back().second)
      out.back().second = std::max(out.back().second, span.second);
    else
      out.push_back(span);
  }
  return out;
}

/// The parts of [from, to) that they cover.
[[nodiscard]] inline Spans within(const Spans& spans, Nanoseconds from, Nanoseconds to) {
  Spans out;
  auto it = std::upper_bound(spans.begin(), spans.end(), from,
                             [](Nanoseconds time, const Span& span) { return time < span.second; });
  for (; it != spans.end() && it->first < to; ++it)
    out.emplace_back(std::max(it->first, from), std::min(it->second, to));
  return out;
}

[[nodiscard]] inline Nanoseconds length(const Spans& spans) {
  Nanoseconds sum;
  for (const Span& span : spans) sum += span.second - span.first;
  return sum;
}

}  // namespace foreshard::explain_time_detail
