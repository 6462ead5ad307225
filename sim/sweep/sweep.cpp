#include "sim/sweep/sweep.hpp"

#include <algorithm>
#include <array>
#include <mutex>

#include "core/settings/settings_table.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/bound_by.hpp"
#include "sim/predict/throughput.hpp"
#include "sim/sweep/outcome.hpp"

namespace foreshard::sim {
namespace {

void refuse(SweepPoint& point, const Error& error) {
  point.state = SweepPoint::State::refused;
  point.reason = error.where.empty() ? error.what : error.where + ": " + error.what;
  if (!error.hint.empty()) point.reason += "; " + error.hint;
}

void fill(const Prediction& p, SweepPoint& point) {
  point.peaks = largest_peaks(p);
  point.peaks.reserved = most_reserved(p);
  point.least_reserved = std::min(point.peaks.reserved, p.peaks_depend_on_time ? p.least_peaks.reserved : ~Bytes{0});
  point.most_reserved = std::max(point.peaks.reserved, p.most_peaks.reserved);
  point.may_run_out_of_memory = p.may_run_out_of_memory;
  point.num_alloc_retries = p.num_alloc_retries;
  point.step_num_alloc_retries = std::max<std::int64_t>(p.step_num_alloc_retries, keeps_retrying(p) ? 1 : 0);
  point.valid = p.valid;
  point.not_valid = p.not_valid;
  point.not_measured = p.not_measured;
  point.warnings = p.warnings;
  for (const std::string& warning : warnings(point.settings)) point.warnings.push_back(warning);
  point.not_as_asked = not_as_asked(p);
  point.has_time = p.has_time;
  point.step_ms = lasting_step_ms(p);
  point.host_ms = p.host_ms;
  point.exposed_communication_ms = p.exposed_communication_ms;
  point.exposed_all_to_all_ms = p.exposed_all_to_all_ms;
  point.host_bound = p.host_bound;
  point.host_binds = host_binds(p);
  point.uncertainty = p.interval.half_width(p.step_ms);
  point.difference = p.difference;
  point.floor = p.floor;
  if (p.deadlock) {
    point.state = SweepPoint::State::deadlock;
    point.reason = p.deadlock->text;
  } else if (p.out_of_memory || runs_out_later(p)) {
    point.state = SweepPoint::State::out_of_memory;
  }
  if (point.state == SweepPoint::State::ran) point.tokens_per_s_per_gpu = work_per_second(p.work, point.step_ms);
}

/// What point `index` was asked for.
void place(const SweepRequest& request, std::size_t index, SweepPoint& point) {
  point.values = values_at(request.ranges, index);
  point.router_imbalance = router_imbalance_at(request.base, request.ranges, index);
}

SweepPoint run_point(WorkloadSource& source, const MachineProfile& machine, const SweepRequest& request,
                     const std::optional<HostScale>& host_scale, std::size_t index) {
  const auto settings = settings_at(request.base, request.ranges, index);
  SweepPoint point;
  if (settings)
    point = simulate_point(source, machine, {request.memory_limit, host_scale, false, request.differences}, *settings);
  else
    refuse(point, settings.error());
  place(request, index, point);
  return point;
}

class ReasonCounts {
 public:
  void add(const std::string& reason) {
    auto known = std::find_if(counts_.begin(), counts_.end(), [&](const auto& c) { return c.reason == reason; });
    if (known == counts_.end()) known = counts_.insert(known, {reason, 0});
    ++known->points;
  }
  std::vector<ReasonCount> take() {
    std::stable_sort(counts_.begin(), counts_.end(), [](const auto& a, const auto& b) { return a.points > b.points; });
    return std::move(counts_);
  }

 private:
  std::vector<ReasonCount> counts_;
};

}  // namespace

PlannedPoint plan_point(WorkloadSource& source, const MachineProfile& machine, const PointRequest& request,
                        const Settings& settings) {
  PlannedPoint out;
  out.point.settings = settings;
  const auto workload = source.at(settings);
  if (!workload) {
    refuse(out.point, workload.error());
    return out;
  }
  PredictRequest wanted{settings, request.memory_limit, 4, request.host_scale};
  wanted.ops_alone = !request.every_op;
  wanted.step_alone = request.step_alone;
  wanted.differences = request.differences;
  wanted.kept_ranks = kNoRanks;
  auto p = predict(**workload, machine, wanted);
  if (!p) {
    refuse(out.point, p.error());
    return out;
  }
  fill(*p, out.point);
  out.plan = std::move(*p);
  return out;
}

SweepPoint simulate_point(WorkloadSource& source, const MachineProfile& machine, const PointRequest& request,
                          const Settings& settings) {
  return plan_point(source, machine, request, settings).point;
}

Result<std::vector<SweepPoint>> sweep(WorkloadSource& source, const MachineProfile& machine,
                                      const SweepRequest& request) {
  const auto count = count_points(request.ranges);
  FORESHARD_TRY(count);
  const auto host_scale = common_host_scale(source, machine, request.base);
  FORESHARD_TRY(host_scale);
  std::vector<SweepPoint> points(*count);
  std::vector<std::size_t> to_run;
  for (std::size_t i = 0; i < *count; ++i) {
    if (i < request.known.size() && request.known[i]) {
      points[i] = *request.known[i];
      place(request, i, points[i]);
      if (const auto settings = settings_at(request.base, request.ranges, i)) points[i].settings = *settings;
    } else if (request.part.has(i)) {
      to_run.push_back(i);
    }
  }
  if (request.on_start) request.on_start(to_run.size());
  std::mutex telling;
  std::vector<char> left_out(points.size(), 0);
  for_each(
      to_run.size(), request.threads,
      [&](std::size_t n) {
        if (request.is_over && request.is_over()) {
          left_out[to_run[n]] = 1;
          return;
        }
        SweepPoint& point = points[to_run[n]];
        point = run_point(source, machine, request, *host_scale, to_run[n]);
        const std::lock_guard lock(telling);
        if (request.on_point) request.on_point(point);
      },
      [&](std::size_t done) {
        if (request.on_progress) request.on_progress(done, to_run.size());
      });
  std::vector<SweepPoint> done;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (left_out[i] == 0) done.push_back(std::move(points[i]));
  return done;
}

std::vector<PointCost> costs(const std::vector<SweepPoint>& points, std::optional<double> router_imbalance) {
  std::vector<PointCost> out;
  bool known = true;
  const auto doubt = [](const SweepPoint& point) {
    return std::array{!point.valid, fits(point) != Fits::surely, point.step_num_alloc_retries > 0};
  };
  const auto ran = [&](const SweepPoint& point) {
    return point.state == SweepPoint::State::ran &&
           point.router_imbalance == router_imbalance.value_or(point.router_imbalance);
  };
  std::optional<std::array<bool, 3>> least;
  for (const SweepPoint& point : points)
    if (ran(point)) least = std::min(least.value_or(doubt(point)), doubt(point));
  const auto takes_part = [&](const SweepPoint& point) { return ran(point) && doubt(point) == *least; };
  const bool timed = std::any_of(points.begin(), points.end(),
                                 [&](const SweepPoint& point) { return takes_part(point) && point.has_time; });
  for (std::size_t i = 0; i < points.size(); ++i) {
    const SweepPoint& point = points[i];
    if (!takes_part(point) || point.has_time != timed) continue;
    const double work = work_of_step(point.settings);
    known &= work > 0;
    out.push_back({i, point.step_ms, point.peaks.reserved, point.difference, work});
  }
  const bool alike =
      std::all_of(out.begin(), out.end(), [&](const PointCost& p) { return p.work == out.front().work; });
  if (!known || alike)
    for (PointCost& cost : out) cost.work = 1;
  return out;
}

Fits fits(const SweepPoint& point) {
  if (point.state != SweepPoint::State::ran) return Fits::no;
  return point.may_run_out_of_memory ? Fits::maybe : Fits::surely;
}

std::vector<ReasonCount> refusals(const std::vector<SweepPoint>& points) {
  ReasonCounts counts;
  for (const SweepPoint& point : points)
    if (point.state == SweepPoint::State::refused) counts.add(point.reason);
  return counts.take();
}

std::vector<ReasonCount> not_as_asked(const std::vector<SweepPoint>& points) {
  ReasonCounts counts;
  for (const SweepPoint& point : points)
    for (const std::string& reason : point.not_as_asked) counts.add(reason);
  return counts.take();
}

}  // namespace foreshard::sim
