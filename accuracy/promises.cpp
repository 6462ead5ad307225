#include "accuracy/promises.hpp"

#include <cmath>

namespace foreshard::accuracy {
namespace {

double off(Bytes predicted, Bytes measured) {
  return std::abs(static_cast<double>(predicted) / static_cast<double>(measured) - 1);
}

void add_step(const AccuracyRow& row, std::vector<std::string>& out) {
  const bool model = row.from == AccuracyRow::From::model;
  if (!row.has_time || (!row.time_known && !model)) return;  // the plan itself calls this time not valid
  if (!row.of_host()) {
    if (std::abs(row.error()) > (model ? kPromises.model_step : kPromises.step)) out.emplace_back("step");
  } else if (!model) {
    if (row.beyond() > kPromises.host_bound_beyond) out.emplace_back("host-bound step");
  } else if (row.measured.median_ms < row.low_ms || row.measured.median_ms > row.high_ms) {
    out.emplace_back("interval");
  }
}

void add_peaks(const AccuracyRow& row, std::vector<std::string>& out) {
  const MemoryPeaks& p = row.peaks;
  const MemoryPeaks& m = row.measured.peaks;
  const auto hold = [&](const char* name, Bytes predicted, Bytes measured, double most) {
    if (off(predicted, measured) > most) out.emplace_back(name);
  };
  if (row.from == AccuracyRow::From::model) {
    hold("allocated", p.allocated, m.allocated, kPromises.model_allocated);
    hold("reserved", p.reserved, m.reserved, kPromises.model_reserved);
    return;
  }
  const double most = row.record_stream ? kPromises.clocked : row.invented ? kPromises.invented : 0;
  hold("requested", p.requested, m.requested, row.record_stream ? kPromises.clocked : 0);
  hold("allocated", p.allocated, m.allocated, most);
  hold("active", p.active, m.active, most);
  hold("reserved", p.reserved, m.reserved, most);
}

}  // namespace

std::vector<std::string> missed(const AccuracyRow& row) {
  std::vector<std::string> out;
  if (!row.refused.empty() || !row.differs.empty()) return out;
  add_step(row, out);
  add_peaks(row, out);
  return out;
}

}  // namespace foreshard::accuracy
