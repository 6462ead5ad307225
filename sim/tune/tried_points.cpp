#include "sim/tune/tried_points.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/machine/address_space.hpp"
#include "sim/machine/valid_range.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/sweep/enough_memory.hpp"

namespace foreshard::sim {
namespace {

/// As many are begun before it is asked whether time is left.
constexpr std::size_t kBegun = 4;

}  // namespace

TriedPoints::TriedPoints(WorkloadSource& source, const MachineProfile& machine, const TuneRequest& request,
                         const PointRequest& shared)
    : source_(source), machine_(machine), request_(request), shared_(shared) {
  const Bytes capacity = memory_options(machine, request.memory_limit).capacity;
  most_reserved_ = capacity - std::min(capacity, request.headroom);
}

Result<std::vector<std::optional<std::size_t>>> TriedPoints::run(const std::vector<Neighbour>& list, Prune prune) {
  std::vector<std::string> keys;
  Neighbours batch;
  std::vector<std::string> classes;
  const auto flush = [&]() -> Result<void> {
    const auto done = simulate(batch, classes);
    FORESHARD_TRY(done);
    for (std::size_t i = *done; i < batch.size(); ++i) index_of_.erase(text_of(batch[i]->settings));
    batch.clear();
    classes.clear();
    return {};
  };
  std::size_t planned = points_.size();
  for (const Neighbour& one : list) {
    keys.push_back(text_of(one.settings));
    if (limit_ || index_of_.contains(keys.back())) continue;
    std::string of_class = class_of(one.settings);
    if (prune == Prune::by_bounds && is_pruned(of_class)) {
      ++pruned_;
      continue;
    }
    if (request_.points && planned >= *request_.points) {
      limit_ = TuneEnd::points;
      continue;
    }
    index_of_.emplace(keys.back(), planned++);
    batch.push_back(&one);
    classes.push_back(std::move(of_class));
    if (batch.size() == kBatch) FORESHARD_TRY(flush());
  }
  FORESHARD_TRY(flush());
  std::vector<std::optional<std::size_t>> out;
  for (const std::string& key : keys) {
    const auto at = index_of_.find(key);
    out.push_back(at == index_of_.end() ? std::nullopt : std::optional(at->second));
  }
  return out;
}

std::vector<SweepPoint> TriedPoints::simulated(const Batch& batch, const std::vector<std::size_t>& places,
                                               Memory memory) const {
  PointRequest request = shared_;
  request.step_alone = true;
  if (memory == Memory::enough) request.memory_limit = std::nullopt;
  const MachineProfile machine = memory == Memory::enough ? with_enough_memory(machine_) : machine_;
  std::vector<SweepPoint> points(places.size());
  for_each(points.size(), request_.threads,
           [&](std::size_t i) { points[i] = simulate_point(source_, machine, request, *batch[places[i]]); });
  return points;
}

Result<std::vector<SweepPoint>> TriedPoints::simulate_some(const Batch& batch, std::size_t from, Memory memory) {
  if (request_.share) {
    auto points = request_.share({shared_batches_++, batch},
                                 [&](const auto& places) { return simulated(batch, places, memory); });
    FORESHARD_TRY(points);
    for (std::size_t i = 0; i < batch.size(); ++i) (*points)[i].settings = *batch[i];
    return points;
  }
  const std::size_t begun = request_.is_over ? std::max<std::size_t>(kBegun, 2 * request_.threads) : batch.size();
  std::vector<std::size_t> places(std::min(begun, batch.size() - from));
  std::iota(places.begin(), places.end(), from);
  auto points = simulated(batch, places, memory);
  if (request_.is_over && request_.is_over()) limit_ = TuneEnd::time;
  return points;
}

Result<std::size_t> TriedPoints::simulate(const Neighbours& batch, const std::vector<std::string>& classes) {
  Batch settings;
  for (const Neighbour* one : batch) settings.push_back(&one->settings);
  std::size_t done = 0;
  while (done < batch.size() && limit_ != TuneEnd::time) {
    auto points = simulate_some(settings, done, Memory::as_asked);
    FORESHARD_TRY(points);
    for (SweepPoint& point : *points) {
      keep(std::move(point), batch[done]->phrase, classes[done]);
      ++done;
    }
    if (request_.on_progress) request_.on_progress({points_.size(), best_ ? points_[*best_].point.step_ms : 0});
  }
  return done;
}

Result<void> TriedPoints::weigh() {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < points_.size(); ++i)
    if (points_[i].point.state == SweepPoint::State::out_of_memory && !weighed_.contains(i)) missing.push_back(i);
  for (std::size_t done = 0; done < missing.size() && limit_ != TuneEnd::time;) {
    Batch batch;
    for (std::size_t i = done; i < std::min(done + kBatch, missing.size()); ++i)
      batch.push_back(&points_[missing[i]].point.settings);
    const auto points = simulate_some(batch, 0, Memory::enough);
    FORESHARD_TRY(points);
    for (const SweepPoint& point : *points)
      weighed_[missing[done++]] =
          point.state == SweepPoint::State::ran ? std::optional(point.most_reserved) : std::nullopt;
  }
  for (std::size_t i = 0; i < points_.size(); ++i) {
    Class& of = classes_.at(class_of(points_[i].point.settings));
    if (is_better(i, of.best)) of.best = i;
  }
  return {};
}

std::optional<Bytes> TriedPoints::takes(std::size_t point) const {
  const SweepPoint& p = points_[point].point;
  if (p.state == SweepPoint::State::ran) return p.most_reserved;
  const auto at = weighed_.find(point);
  return at == weighed_.end() ? std::nullopt : at->second;
}

std::optional<std::size_t> TriedPoints::lightest() const {
  std::optional<std::size_t> out;
  for (std::size_t i = 0; i < points_.size(); ++i)
    if (const auto bytes = takes(i); bytes && (!out || *bytes < *takes(*out))) out = i;
  return out;
}

TunedPoint TriedPoints::whole(const Neighbour& one) const {
  PlannedPoint planned = plan_point(source_, machine_, shared_, one.settings);
  return {std::move(planned.point), one.phrase, std::move(planned.plan)};
}

void TriedPoints::keep(SweepPoint point, const std::string& phrase, const std::string& of_class) {
  const std::size_t index = points_.size();
  points_.push_back({std::move(point), phrase});
  const auto [place, is_new] = classes_.try_emplace(of_class, Class{index, 0});
  Class& at = place->second;
  if (!is_new && is_better(index, at.best)) at.best = index;
  if (fits(index) && (!best_ || is_better(index, *best_))) best_ = index;
  const SweepPoint& kept = points_.back().point;
  if (kept.state == SweepPoint::State::ran && kept.floor.ms() > 0)
    at.floor_ms = at.floor_ms > 0 ? std::min(at.floor_ms, kept.floor.ms()) : kept.floor.ms();
}

bool TriedPoints::fits(std::size_t point) const {
  const SweepPoint& p = points_[point].point;
  return p.state == SweepPoint::State::ran && p.has_time && p.most_reserved <= most_reserved_;
}

std::size_t doubts_of(const SweepPoint& point) {
  return point.not_valid.size() + point.not_as_asked.size() - point.not_measured + (point.not_measured > 0 ? 1 : 0);
}

bool TriedPoints::is_doubted(std::size_t point) const {
  return retries(point) || is_less_sure(point);
}

bool TriedPoints::is_less_sure(std::size_t point) const {
  const auto doubts = [this](const SweepPoint& p) {
    MachineUse use;
    use.nodes = p.settings.nodes;
    use.transports = {p.settings.all_gather, p.settings.reduce_scatter};
    return doubts_of(p) + outside(machine_.valid_range, machine_.name, use).size();
  };
  return doubts(points_[point].point) > doubts(points_.front().point);
}

bool TriedPoints::retries(std::size_t point) const {
  return points_[point].point.has_time && points_[point].point.step_num_alloc_retries > 0;
}

bool TriedPoints::is_better(std::size_t a, std::size_t b) const {
  if (!fits(a) && !fits(b))
    return std::tuple(takes(a).value_or(UINT64_MAX), a) < std::tuple(takes(b).value_or(UINT64_MAX), b);
  const auto key = [this](std::size_t index) {
    const SweepPoint& p = points_[index].point;
    return std::make_tuple(!fits(index), retries(index), is_doubted(index), sim::fits(p) != Fits::surely, p.step_ms,
                           p.peaks.reserved, index);
  };
  return key(a) < key(b);
}

std::optional<std::size_t> TriedPoints::best() const {
  return best_;
}

std::vector<std::size_t> TriedPoints::best_of_classes() const {
  std::vector<std::size_t> out;
  for (const auto& [text, one] : classes_) out.push_back(one.best);
  std::sort(out.begin(), out.end(), [this](std::size_t a, std::size_t b) { return is_better(a, b); });
  return out;
}

bool TriedPoints::is_bounded(std::size_t point) const {
  return is_pruned(class_of(points_[point].point.settings));
}

bool TriedPoints::is_pruned(const std::string& of_class) const {
  if (!best_ || is_doubted(*best_) || sim::fits(points_[*best_].point) != Fits::surely) return false;
  const auto at = classes_.find(of_class);
  return at != classes_.end() && at->second.floor_ms >= points_[*best_].point.step_ms;
}

bool TriedPoints::is_comparable(std::size_t a, std::size_t b) const {
  return fits(a) == fits(b) && retries(a) == retries(b) && is_doubted(a) == is_doubted(b) &&
         sim::fits(points_[a].point) == sim::fits(points_[b].point);
}

}  // namespace foreshard::sim
