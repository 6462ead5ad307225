#include "accuracy/intervals.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace foreshard::accuracy {
namespace {

struct IntervalKind {
  AccuracyRow::From from;
  bool host_bound;
  std::string_view what;
  std::string_view stated;
};

constexpr std::array<IntervalKind, 4> kIntervalKinds{
    {{AccuracyRow::From::sibling, false, "step from a recording at other settings, GPU- or link-bound",
      "/prediction/gpu_bound"},
     {AccuracyRow::From::sibling, true, "step from a recording at other settings, host-bound",
      "/prediction/host_bound"},
     {AccuracyRow::From::model, false, "step from the model alone, GPU- or link-bound",
      "/prediction/model, model_elsewhere"},
     {AccuracyRow::From::model, true, "step from the model alone, host-bound", "/prediction/model_host"}}};

bool is_counted(const AccuracyRow& row, const IntervalKind& kind, AccuracyRow::Seen seen) {
  return row.from == kind.from && row.seen == seen && row.has_time && row.host_bound == kind.host_bound &&
         row.differs.empty() && (row.time_known || row.from == AccuracyRow::From::model);
}

}  // namespace

double needed_half_width(std::vector<double> errors) {
  if (errors.empty()) return 0;
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  const double inside = std::ceil(kIntervalShare * static_cast<double>(errors.size()));
  return errors[static_cast<std::size_t>(inside) - 1];
}

std::vector<IntervalCheck> check_intervals(const Accuracy& accuracy, AccuracyRow::Seen seen) {
  std::vector<IntervalCheck> out;
  for (const IntervalKind& kind : kIntervalKinds) {
    IntervalCheck check{kind.what, kind.stated, {}, 0, 0, 0, 0};
    std::vector<double> errors;
    for (const AccuracyRow& row : accuracy.rows) {
      if (!is_counted(row, kind, seen)) continue;
      const double error = row.measured.median_ms / row.step_ms - 1;
      check.least = errors.empty() ? row.uncertainty : std::min(check.least, row.uncertainty);
      check.most = std::max(check.most, row.uncertainty);
      check.inside += std::abs(error) <= row.uncertainty ? 1 : 0;
      check.error.add(error);
      errors.push_back(error);
    }
    check.needed = needed_half_width(std::move(errors));
    out.push_back(check);
  }
  return out;
}

}  // namespace foreshard::accuracy
