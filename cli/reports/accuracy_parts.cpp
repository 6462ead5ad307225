#include "cli/reports/accuracy_parts.hpp"

#include <fmt/format.h>

#include <array>

#include "accuracy/promises.hpp"
#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::cli {
namespace {

using accuracy::AccuracyRow;
using accuracy::ErrorSum;

constexpr Bytes kSmallest = kMiB;
constexpr Bytes kLargest = kGiB;

void add(const AccuracyRow& row, AccuracySummary& s) {
  ++s.predicted;
  s.exact += row.exact() ? 1 : 0;
  s.clocked += !row.exact() && row.record_stream ? 1 : 0;
  s.missed += accuracy::missed(row).empty() ? 0 : 1;
  s.allocated.add(relative(row.peaks.allocated, row.measured.peaks.allocated));
  if (!row.record_stream) s.reserved.add(relative(row.peaks.reserved, row.measured.peaks.reserved));
  if (!row.has_time) return;
  if (!row.time_known && row.from != AccuracyRow::From::model) {
    ++s.not_valid;
    return;
  }
  s.beyond.add(row.beyond());
  s.step.add(row.error());
  row.of_host() ? s.host.add(row.beyond()) : s.gpu.add(row.error());
}

}  // namespace

std::string_view word(Seen seen) {
  constexpr std::array<std::string_view, 3> kWords{"held out", "fitted", "not stated"};
  return kWords[static_cast<std::size_t>(seen)];
}

std::string describe(const sim::CollectiveRequest& r) {
  return fmt::format("{}, {}, {}, {} ranks ({} a node)", dashed_name(r.kind), name(r.transport), format_bytes(r.bytes),
                     r.ranks, r.ranks_per_node);
}

double relative(Bytes predicted, Bytes measured) {
  return static_cast<double>(predicted) / static_cast<double>(measured) - 1;
}

AccuracySummary summarise(const accuracy::Accuracy& accuracy, AccuracyRow::From from, std::optional<Seen> seen) {
  AccuracySummary s;
  for (const AccuracyRow& row : accuracy.rows) {
    if (row.from != from || (seen && row.seen != *seen)) continue;
    if (!row.refused.empty())
      ++s.refused;
    else if (!row.differs.empty())
      ++s.differs;
    else
      add(row, s);
  }
  return s;
}

ErrorSum sum_of(std::span<const accuracy::CollectiveCheck> checks) {
  ErrorSum sum;
  for (const accuracy::CollectiveCheck& check : checks)
    if (check.request.bytes >= kSmallest && check.request.bytes <= kLargest) sum.add(check.error());
  return sum;
}

}  // namespace foreshard::cli
