#include "sim/collectives/table_correction.hpp"

#include <algorithm>
#include <cmath>

namespace foreshard::sim {
namespace {

/// A point says how fast the host issues, not how fast the collective is, where it is further above the mechanism than
/// mechanisms miss and no slower than a host's pace is, or where smaller ones take as long (`slowest`). No point is
/// that the GPU is modelled to need all of.
bool host_bound(const TableRules& rules, double measured, double modelled, double issue, double slowest) {
  if (measured <= modelled) return false;
  return (measured > rules.mechanism_misses * modelled && measured < rules.slowest_pace * issue) ||
         measured < rules.pace_scatter * slowest;
}

double doublings(std::uint32_t a, std::uint32_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

}  // namespace

TableCorrection::TableCorrection(const MachineProfile& machine, const Model& model)
    : rules_(machine.table_rules), issue_us_(machine.nccl.issue) {
  for (const CollectiveTable& table : machine.collectives) {
    if (table.held_out) continue;
    Curve curve{table, {}, {}, 0};
    curve.table.points.clear();
    double slowest = 0;
    for (const CollectiveTable::Point& point : table.points) {
      const double measured = point.time.us();
      CollectiveRequest request{table.kind, table.transport, point.bytes, table.ranks, table.ranks_per_node};
      request.upcasts = table.upcasts;
      request.dtype = table.dtype;
      const double modelled = model(request);
      if (point.bytes == 0 || measured <= 0 || modelled <= 0) continue;
      curve.least_us = curve.least_us == 0 ? measured : std::min(curve.least_us, measured);
      const double log_bytes = std::log(static_cast<double>(point.bytes));
      if (host_bound(rules_, measured, modelled, issue_us_, slowest)) {
        curve.paces.push_back({log_bytes, std::log(measured)});
        slowest = std::max(slowest, measured);
      } else {
        curve.factors.push_back({log_bytes, std::log(measured / modelled)});
      }
    }
    if (curve.least_us > 0) curves_.push_back(std::move(curve));
  }
}

double TableCorrection::at(const std::vector<Point>& points, double bytes) {
  if (points.empty()) return 0;
  const double where = std::log(std::max(bytes, 1.0));
  if (where <= points.front().log_bytes) return points.front().log_value;
  if (where >= points.back().log_bytes) return points.back().log_value;
  const auto upper = std::upper_bound(points.begin(), points.end(), where,
                                      [](double value, const Point& point) { return value < point.log_bytes; });
  const auto lower = upper - 1;
  const double share = (where - lower->log_bytes) / (upper->log_bytes - lower->log_bytes);
  return lower->log_value + share * (upper->log_value - lower->log_value);
}

const TableCorrection::Curve* TableCorrection::nearest(const CollectiveRequest& request, Transport transport) const {
  const bool one_node = request.ranks <= request.ranks_per_node;
  const auto distance = [&](const CollectiveTable& table) {
    const int others = (table.dtype != request.dtype ? 1 : 0) + (table.upcasts != request.upcasts ? 1 : 0);
    return doublings(table.ranks, request.ranks) + (adds(table.kind) ? others * rules_.other_dtypes : 0);
  };
  const Curve* best = nullptr;
  for (const Curve& curve : curves_) {
    const CollectiveTable& table = curve.table;
    if (table.kind != request.kind || table.transport != transport) continue;
    // A table speaks for groups on one node, or for groups with as many ranks a node.
    const bool table_one_node = table.ranks <= table.ranks_per_node;
    if (table_one_node != one_node || (!one_node && table.ranks_per_node != request.ranks_per_node)) continue;
    // One point's miss is not told apart from its noise: it holds for its own ranks.
    if (table.ranks != request.ranks && curve.factors.size() < 2) continue;
    // Of two equally near the larger, whose latencies are closer to those of many ranks.
    if (best == nullptr || distance(table) < distance(best->table) ||
        (distance(table) == distance(best->table) && table.ranks > best->table.ranks))
      best = &curve;
  }
  return best;
}

/// Beyond the largest size that waited for the host, and never more than was measured of any size: what is there was
/// measured with the host's pace in it.
double TableCorrection::pace(const Curve& curve, double bytes) const {
  if (curve.paces.empty()) return std::min(issue_us_, curve.least_us);
  if (std::log(std::max(bytes, 1.0)) > curve.paces.back().log_bytes) return curve.least_us;
  return std::exp(at(curve.paces, bytes));
}

TableCorrection::Correction TableCorrection::correction(const CollectiveRequest& asked, Transport ran) const {
  const Curve* curve = nearest(asked, asked.transport);
  if (curve == nullptr) curve = nearest(asked, ran);
  if (curve == nullptr) return {1, issue_us_, 0};
  const double weight = std::pow(0.5, doublings(curve->table.ranks, asked.ranks));
  const auto bytes = static_cast<double>(asked.bytes);
  return {std::exp(weight * at(curve->factors, bytes)), pace(*curve, bytes), curve->table.ranks};
}

}  // namespace foreshard::sim
