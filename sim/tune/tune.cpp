#include "sim/tune/tune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/adapt/adapt.hpp"
#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/cuda_graph.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/candidates.hpp"
#include "sim/sweep/enough_memory.hpp"
#include "sim/sweep/outcome.hpp"
#include "sim/sweep/pareto.hpp"
#include "sim/tune/kept_units.hpp"
#include "sim/tune/neighbours.hpp"
#include "sim/tune/tried_points.hpp"

namespace foreshard::sim {
namespace {

/// So many points' neighbours may bring nothing, one after the other, until the search ends.
constexpr std::size_t kPatience = 6;
constexpr std::size_t kNext = 3;
constexpr const char* kGraphPhrase = "forward and backward replayed from one CUDA graph";
/// How much longer than with retries a step without them takes, where both are named: a choice of this program. A
/// process that lives by retries may die where its plan does not.
constexpr double kDear = 0.10;
/// How much less reserved memory makes a slower point worth naming.
constexpr double kSmaller = 0.02;

/// The units that run at `settings`: a recording's are grouped as they ask for.
Result<std::vector<Unit>> units_at(const Settings& settings, const Workload& workload) {
  auto adapted = adapt(workload, settings);
  FORESHARD_TRY(adapted);
  return std::move(adapted->workload.units);
}

/// The points of `sweep` without ranges, at the other settings of `at`: the start's, but for what may be changed.
std::vector<Neighbour> uniform_points(const Settings& at, const TuneRequest& request) {
  const std::vector<Range> ranges = usual_ranges();
  std::vector<Neighbour> out;
  for (std::size_t i = 0, count = count_points(ranges).value_or(0); i < count; ++i) {
    Settings base = at;
    base.prefetch_lists = {};
    auto settings = settings_at(base, ranges, i);
    if (settings && request.allowed.holds(changed_families(request.start, *settings)))
      out.push_back({std::move(*settings), "uniform settings", {}, {}});
  }
  return out;
}

class Tuner {
 public:
  Tuner(WorkloadSource& source, const MachineProfile& machine, const TuneRequest& request, const PointRequest& shared)
      : source_(source),
        machine_(machine),
        request_(request),
        shared_(shared),
        tried_(source, machine, request, shared) {}

  Result<TuneResult> find() {
    FORESHARD_TRY(look({}));
    return finish();
  }

 private:
  /// Finds `best_`, which is no worse than any of `also`.
  Result<void> look(const std::vector<Neighbour>& also) {
    FORESHARD_TRY(try_start());
    FORESHARD_TRY(try_smaller());
    FORESHARD_TRY(tried_.run(also, TriedPoints::Prune::no));
    FORESHARD_TRY(try_graph());
    const auto uniform = tried_.run(uniform_points(request_.start, request_), TriedPoints::Prune::no);
    FORESHARD_TRY(uniform);
    uniform_ = best_of(*uniform);
    FORESHARD_TRY(go_deeper());
    FORESHARD_TRY(try_kept());
    FORESHARD_TRY(search());
    return simplify();
  }

  Result<void> try_start() {
    FORESHARD_TRY(tried_.run({{request_.start, "as asked for", {}, {}}}, TriedPoints::Prune::no));
    if (tried_.points().empty()) return fail(ErrorKind::usage, "a search of no points finds nothing", "--points");
    const SweepPoint& start = tried_.points().front().point;
    if (start.state == SweepPoint::State::refused) return fail(ErrorKind::usage, start.reason);
    if (start.state == SweepPoint::State::ran && !start.has_time)
      return fail(ErrorKind::usage, "the source has no times, so that nothing is faster than anything", {},
                  "import a profiler trace with it; sweep finds the settings of least memory");
    return {};
  }

  /// Where the start does not fit, or lives by retries: what takes least first, so that few points find what fits
  /// without them, or how much is short.
  Result<void> try_smaller() {
    if (tried_.fits(0) && !tried_.retries(0)) return {};
    const auto workload = source_.at(request_.start);
    FORESHARD_TRY(workload);
    const auto units = units_at(request_.start, **workload);
    FORESHARD_TRY(units);
    const Position position{request_.start, request_.allowed, request_.start, **workload, *units, {}, true};
    std::vector<Neighbour> moves = smaller_moves(position);
    std::erase_if(moves, [this](const Neighbour& one) { return is_refused(one.settings); });
    FORESHARD_TRY(tried_.run(smaller_settings(position, moves), TriedPoints::Prune::no));
    return {};
  }

  /// Whether the source cannot be planned with them: a recording has what was recorded.
  [[nodiscard]] bool is_refused(const Settings& settings) const {
    const auto workload = source_.at(settings);
    return !workload || !units_at(settings, **workload);
  }

  /// Where the host takes longest as asked for and a graph may be made: the start in a graph and, where that is better,
  /// the uniform ones in it, before those that the host still issues. So a search of few points comes to it.
  Result<void> try_graph() {
    const SweepPoint& start = point(0);
    if (!request_.allowed.has(MoveFamily::cuda_graph) || start.settings.cuda_graph || !tried_.fits(0) ||
        start.floor.host_ms < start.floor.ms())
      return {};
    const Settings captured = in_graph(request_.start);
    const auto tried = tried_.run({{captured, kGraphPhrase, {}, {}}}, TriedPoints::Prune::no);
    FORESHARD_TRY(tried);
    if (!tried->front() || !tried_.is_better(*tried->front(), 0)) return {};
    FORESHARD_TRY(tried_.run(uniform_points(captured, request_), TriedPoints::Prune::no));
    return {};
  }

  /// The greedy search: every depth. Beyond one that runs out of memory another may fit, by its fragmentation.
  Result<void> go_deeper() {
    const auto workload = source_.at(request_.start);
    FORESHARD_TRY(workload);
    const auto units = units_at(request_.start, **workload);
    FORESHARD_TRY(units);
    const Position position{request_.start, request_.allowed, request_.start, **workload, *units, {}, false};
    const auto deeper = tried_.run(deeper_prefetch(position), TriedPoints::Prune::no);
    FORESHARD_TRY(deeper);
    greedy_ = best_of(*deeper);
    return {};
  }

  /// Embedding and head on their own, with some of the units kept, on the best uniform settings: what a walk that must
  /// gain with each change may not come to.
  Result<void> try_kept() {
    if (!uniform_) return {};
    Settings at = point(*uniform_).settings;
    at.fully_shard_embedding_and_head = true;
    at.reshard_after_forward = {};
    at.reshard_of_unit.clear();
    const auto workload = source_.at(at);
    if (!workload) return {};  // a source that has no such units
    const auto units = units_at(at, **workload);
    if (!units) return {};
    std::vector<Neighbour> list;
    const std::uint32_t most = most_kept_units(at, *units);
    for (const std::uint32_t quarters : {1U, 2U, 3U}) {
      Settings settings = at;
      keep_units(most * quarters / 4, *units, settings);
      if (check(settings) && request_.allowed.holds(changed_families(request_.start, settings)))
        list.push_back({std::move(settings), "embedding and head on their own, some units kept", {}, {}});
    }
    FORESHARD_TRY(tried_.run(list, TriedPoints::Prune::no));
    return {};
  }

  Result<void> search() {
    std::set<std::size_t> expanded;
    if (!tried_.best()) FORESHARD_TRY(tried_.weigh());
    for (std::size_t in_vain = 0; in_vain < kPatience && !tried_.limit();) {
      const auto next = next_point(expanded);
      if (!next) break;
      expanded.insert(*next);
      const auto before = aim();
      FORESHARD_TRY(expand(*next));
      in_vain = aim() == before ? in_vain + 1 : 0;
    }
    return {};
  }

  /// The best that fits; while none does, what takes least.
  [[nodiscard]] std::optional<std::size_t> aim() const { return tried_.best() ? tried_.best() : tried_.lightest(); }

  /// What the best's neighbours bring; while nothing fits, they are weighed.
  Result<std::vector<std::optional<std::size_t>>> run(const std::vector<Neighbour>& list) {
    auto points = tried_.run(list, TriedPoints::Prune::by_bounds);
    FORESHARD_TRY(points);
    if (!tried_.best()) FORESHARD_TRY(tried_.weigh());
    return points;
  }

  /// The best of all that are the best of their class, and that may lead to a better one.
  [[nodiscard]] std::optional<std::size_t> next_point(const std::set<std::size_t>& expanded) const {
    for (const std::size_t point : tried_.best_of_classes()) {
      if (tried_.points()[point].point.state == SweepPoint::State::refused) continue;
      if (tried_.best() && (!tried_.fits(point) || (point != tried_.best() && tried_.is_bounded(point)))) continue;
      if (!expanded.contains(point)) return point;
    }
    return std::nullopt;
  }

  Result<void> expand(std::size_t index) {
    const Settings at = tried_.points()[index].point.settings;
    const auto workload = source_.at(at);
    FORESHARD_TRY(workload);
    const bool fits = tried_.fits(index);
    const auto waits = fits ? waits_at(at, SlowedKernels::left_out) : Result<Waits>(Waits{});
    FORESHARD_TRY(waits);
    const auto units = fits ? Result<std::vector<Unit>>(waits->units) : units_at(at, **workload);
    FORESHARD_TRY(units);
    const Position position{
        request_.start, request_.allowed, at, **workload, *units, waits->exposed, !fits || tried_.retries(index)};
    const std::vector<Neighbour> list = neighbours(position);
    const auto points = run(list);
    FORESHARD_TRY(points);
    // Those that are better than where they come from, the best first, on top of one another.
    std::vector<std::pair<std::size_t, std::size_t>> better;  // point, place in the list
    for (std::size_t i = 0; i < list.size(); ++i)
      if (const auto& point = (*points)[i]; point && tried_.is_better(*point, index)) better.emplace_back(*point, i);
    std::sort(better.begin(), better.end(),
              [this](const auto& a, const auto& b) { return tried_.is_better(a.first, b.first); });
    std::vector<Neighbour> best_first;
    for (const auto& [point, place] : better) best_first.push_back(list[place]);
    FORESHARD_TRY(run(together(position, best_first)));
    return {};
  }

  Result<Waits> waits_at(const Settings& settings, SlowedKernels slowed) const {
    const auto workload = source_.at(settings);
    FORESHARD_TRY(workload);
    PredictRequest request{settings, request_.memory_limit, 4, shared_.host_scale};
    request.step_alone = request.keep_run = true;
    const auto p = predict(**workload, machine_, request);
    FORESHARD_TRY(p);
    return waits_of(p->run, slowed);
  }

  [[nodiscard]] std::optional<std::size_t> best_of(const std::vector<std::optional<std::size_t>>& points) const {
    std::optional<std::size_t> best;
    for (const auto& point : points)
      if (point && tried_.fits(*point) && (!best || tried_.is_better(*point, *best))) best = point;
    return best;
  }

  [[nodiscard]] const SweepPoint& point(std::size_t index) const { return tried_.points()[index].point; }

  [[nodiscard]] double reserved(std::size_t index) const { return static_cast<double>(point(index).peaks.reserved); }

  /// Whether it may be answered for the fastest: it is as fast, and as sure.
  [[nodiscard]] bool is_equal_to_fastest(std::size_t index) const {
    const std::size_t fastest = *tried_.best();
    return tried_.is_comparable(index, fastest) && point(index).step_ms <= point(fastest).step_ms * (1 + kEqualSteps);
  }

  /// Of the points as fast as the fastest the smallest, where that is worth it. Whether it is another one.
  bool choose_smaller() {
    const std::size_t before = *best_;
    if (!is_equal_to_fastest(*best_)) best_ = tried_.best();  // a faster one was found since
    std::size_t smallest = *best_;
    for (std::size_t i = 0; i < tried_.points().size(); ++i)
      if (is_equal_to_fastest(i) &&
          std::make_pair(reserved(i), point(i).step_ms) < std::make_pair(reserved(smallest), point(smallest).step_ms))
        smallest = i;
    if (reserved(smallest) < reserved(*best_) * (1 - kSmaller)) best_ = smallest;
    return *best_ != before;
  }

  /// The smallest of those as fast as the fastest; the uniform one, where it is no larger than that. How large an
  /// answer for it may be. Something fits.
  double choose_among_equals() {
    best_ = tried_.best();
    choose_smaller();
    const double most = reserved(*best_) * (1 + kSmaller);
    for (const auto& simpler : {uniform_, greedy_, std::optional<std::size_t>(0)})
      if (simpler && is_equal_to_fastest(*simpler) && reserved(*simpler) <= most) best_ = simpler;
    return most;
  }

  /// Whether the best is left for one with a change less, no slower than what is equal to the fastest, and no larger
  /// than `most`.
  Result<bool> take_one_back(double most) {
    const std::string phrase = tried_.points()[*best_].phrase;
    std::vector<Neighbour> list = simpler_settings(request_.start, point(*best_).settings);
    for (Neighbour& one : list) one.phrase = phrase;
    const auto points = tried_.run(list, TriedPoints::Prune::no);
    FORESHARD_TRY(points);
    for (const auto& simpler : *points) {
      if (!simpler || !is_equal_to_fastest(*simpler) || reserved(*simpler) > most) continue;
      best_ = simpler;
      return true;
    }
    return false;
  }

  /// The best with one change less, until each brings something; what that comes to may be smaller than all before.
  Result<void> simplify() {
    if (!tried_.best()) return {};
    double most = choose_among_equals();
    for (;;) {
      for (bool again = true; again && !tried_.limit();) {
        const auto taken_back = take_one_back(most);
        FORESHARD_TRY(taken_back);
        again = *taken_back;
      }
      if (!choose_smaller()) return {};
      most = reserved(*best_) * (1 + kSmaller);
    }
  }

  /// Where nothing else is against it than its retries.
  [[nodiscard]] std::optional<std::size_t> fastest_retrying() const {
    if (tried_.retries(*best_)) return std::nullopt;
    std::optional<std::size_t> fastest;
    for (std::size_t i = 0; i < tried_.points().size(); ++i)
      if (tried_.fits(i) && tried_.retries(i) && !tried_.is_less_sure(i) &&
          (!fastest || point(i).step_ms < point(*fastest).step_ms))
        fastest = i;
    return fastest && point(*best_).step_ms > point(*fastest).step_ms * (1 + kDear) ? fastest : std::nullopt;
  }

  void count() {
    std::vector<SweepPoint> refused;
    for (std::size_t i = 0; i < tried_.points().size(); ++i) {
      const SweepPoint& p = point(i);
      if (p.state == SweepPoint::State::refused) refused.push_back(p);
      if (p.state == SweepPoint::State::out_of_memory) ++out_.out_of_memory;
      if (p.state != SweepPoint::State::ran || !p.has_time) continue;
      if (p.floor.ms() > 0) out_.bound_ms = out_.bound_ms > 0 ? std::min(out_.bound_ms, p.floor.ms()) : p.floor.ms();
      if (is_doubted_beside_best(i)) ++out_.doubted;
    }
    out_.refused = refusals(refused);
  }

  /// Ran, and more is against its numbers than against the best's.
  [[nodiscard]] bool is_doubted_beside_best(std::size_t i) const {
    const SweepPoint& p = point(i);
    return best_ && p.state == SweepPoint::State::ran && p.has_time && !tried_.retries(i) && tried_.is_doubted(i) &&
           !tried_.is_doubted(*best_);
  }

  /// Of those, where it is faster than the best.
  [[nodiscard]] std::optional<std::size_t> fastest_doubted() const {
    std::optional<std::size_t> fastest;
    for (std::size_t i = 0; i < tried_.points().size(); ++i)
      if (is_doubted_beside_best(i) && tried_.fits(i) && point(i).step_ms < point(fastest.value_or(*best_)).step_ms)
        fastest = i;
    return fastest;
  }

  /// TuneResult::next.
  [[nodiscard]] std::vector<std::size_t> next_best() const {
    std::vector<std::size_t> slower;
    for (std::size_t i = 0; i < tried_.points().size(); ++i)
      if (tried_.is_comparable(i, *best_)) slower.push_back(i);
    std::sort(slower.begin(), slower.end(), [this](std::size_t a, std::size_t b) { return tried_.is_better(a, b); });
    auto smallest = static_cast<double>(point(*best_).peaks.reserved);
    std::vector<std::size_t> next;
    for (const std::size_t i : slower) {
      const auto reserved = static_cast<double>(point(i).peaks.reserved);
      if (next.size() == kNext || reserved > smallest * (1 - kSmaller)) continue;
      next.push_back(i);
      smallest = reserved;
    }
    return next;
  }

  /// The points that the result names, each planned whole once, and what nobody allowed; beside them what the best
  /// waits for. Fails as that does.
  Result<void> plan_named(const std::optional<Neighbour>& graph) {
    const auto retrying = best_ ? fastest_retrying() : std::nullopt;
    const auto doubted = best_ ? fastest_doubted() : std::nullopt;
    const std::vector<std::size_t> next = best_ ? next_best() : std::vector<std::size_t>();
    std::vector<std::size_t> named = next;
    const auto fastest = tried_.best() == best_ ? std::nullopt : tried_.best();
    for (const auto& one : {std::optional<std::size_t>(0), best_, fastest, uniform_, greedy_, retrying, doubted})
      if (one) named.push_back(*one);
    std::sort(named.begin(), named.end());
    named.erase(std::unique(named.begin(), named.end()), named.end());
    std::vector<Neighbour> list;
    for (const std::size_t i : named) list.push_back({point(i).settings, tried_.points()[i].phrase, {}, {}});
    if (graph) list.push_back(*graph);
    std::vector<TunedPoint> plans(list.size());
    Result<Waits> waits;
    for_each(list.size() + (best_ ? 1 : 0), request_.threads, [&](std::size_t i) {
      if (i < list.size())
        plans[i] = tried_.whole(list[i]);
      else
        waits = waits_at(point(*best_).settings, SlowedKernels::looked_for);
    });
    FORESHARD_TRY(waits);
    out_.units = waits->units;
    out_.waits = std::move(*waits);
    if (graph) out_.with_cuda_graph = plans.back();
    const auto set = [&](std::optional<std::size_t> at, std::optional<TunedPoint>& out) {
      if (at) out = plans[static_cast<std::size_t>(std::lower_bound(named.begin(), named.end(), *at) - named.begin())];
    };
    out_.start = plans.front();
    set(best_, out_.best);
    set(fastest, out_.fastest);
    set(uniform_, out_.uniform);
    set(greedy_, out_.greedy);
    set(retrying, out_.fastest_retrying);
    set(doubted, out_.fastest_doubted);
    for (const std::size_t i : next) {
      std::optional<TunedPoint> one;
      set(i, one);
      out_.next.push_back(std::move(*one));
    }
    return {};
  }

  /// Of those that may be answered, as the best may.
  void add_front() {
    std::vector<PointCost> costs;
    for (std::size_t i = 0; i < tried_.points().size(); ++i) {
      if (tried_.is_comparable(i, *best_))
        costs.push_back({i, point(i).step_ms, point(i).peaks.reserved, 0, 1});
      else if (tried_.fits(i) &&
               ((tried_.retries(i) && !tried_.retries(*best_)) || (tried_.is_doubted(i) && !tried_.is_doubted(*best_))))
        out_.no_part.push_back(i);
    }
    out_.front = pareto(costs);
  }

  [[nodiscard]] static Settings in_graph(Settings settings) {
    settings.cuda_graph = CudaGraph{};
    settings.post_optimizer_event = false;
    return settings;
  }

  /// What nobody allowed, so that the answer can say whether it would matter: the best in a graph. Where the host
  /// takes longest, another one is best in a graph, which a search finds; not where points are limited. Who joins
  /// tasks' shares searches alone, so that the answer is one process's.
  [[nodiscard]] std::optional<Neighbour> best_in_graph(const Workload& workload) const {
    const SweepPoint& best = point(*best_);
    if (request_.allowed.has(MoveFamily::cuda_graph) || best.settings.cuda_graph || !offers_graph(workload.lowering))
      return std::nullopt;
    Neighbour out{in_graph(best.settings), kGraphPhrase, {}, {}};
    if (best.floor.host_ms < best.floor.ms() || request_.points || tried_.limit()) return out;
    TuneRequest request = request_;
    request.start = in_graph(request_.start);
    request.share = {};
    request.on_progress = {};
    Tuner other(source_, machine_, request, shared_);
    if (other.look({out}) && other.best_) out.settings = other.point(*other.best_).settings;
    return out;
  }

  /// One family at a time as the start has it: simplify() tried them.
  Result<void> add_changes() {
    const Settings best = point(*best_).settings;
    std::vector<Neighbour> list;
    for (const MoveFamily family : kEnumValues<MoveFamily>) {
      Settings without = with_family_of(request_.start, family, best);
      if (without != best) list.push_back({std::move(without), "one change less", {}, {}});
    }
    const auto points = tried_.run(list, TriedPoints::Prune::no);
    FORESHARD_TRY(points);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& tried = (*points)[i];
      if (!tried) {  // a limit came first
        ++out_.changes_not_tried;
        continue;
      }
      ChangeWorth worth{setting_text(list[i].settings, best), {}, 0};
      const SweepPoint& other = point(*tried);
      worth.reserved = static_cast<std::int64_t>(other.peaks.reserved - point(*best_).peaks.reserved);
      if (tried_.fits(*tried) && (!tried_.is_doubted(*tried) || tried_.is_doubted(*best_)))
        worth.ms = other.step_ms - point(*best_).step_ms;
      out_.changes.push_back(std::move(worth));
    }
    return {};
  }

  /// TuneResult::least.
  [[nodiscard]] std::optional<PlannedPoint> planned_least() const {
    PointRequest request = shared_;
    request.every_op = true;
    const std::size_t least = tried_.lightest().value_or(0);
    if (point(least).state == SweepPoint::State::ran)
      return plan_point(source_, machine_, request, point(least).settings);
    request.memory_limit = std::nullopt;
    PlannedPoint planned = plan_point(source_, with_enough_memory(machine_), request, point(least).settings);
    return planned.point.state == SweepPoint::State::ran ? std::optional(std::move(planned)) : std::nullopt;
  }

  Result<TuneResult> finish() {
    if (best_) FORESHARD_TRY(add_changes());
    out_.most_reserved = tried_.most_reserved();
    out_.tried = tried_.points().size();
    out_.pruned = tried_.pruned();
    out_.end = tried_.limit().value_or(TuneEnd::nothing_helps);
    count();
    if (request_.points_alone) {
      out_.points = tried_.take();
      return std::move(out_);
    }
    if (!best_) {
      FORESHARD_TRY(plan_named({}));
      out_.least = planned_least();
      out_.points = tried_.take();
      return std::move(out_);
    }
    const auto workload = source_.at(point(*best_).settings);
    FORESHARD_TRY(workload);
    FORESHARD_TRY(plan_named(best_in_graph(**workload)));
    add_front();
    out_.points = tried_.take();
    return std::move(out_);
  }

  WorkloadSource& source_;
  const MachineProfile& machine_;
  const TuneRequest& request_;
  const PointRequest& shared_;
  TriedPoints tried_;
  std::optional<std::size_t> uniform_;  // the best of `sweep`'s
  std::optional<std::size_t> greedy_;   // and of uniform depths
  std::optional<std::size_t> best_;     // once it is simplified
  TuneResult out_;
};

}  // namespace

Result<TuneResult> tune(WorkloadSource& source, const MachineProfile& machine, const TuneRequest& request) {
  FORESHARD_TRY(check_memory_limit(request.memory_limit, machine));
  const Bytes capacity = memory_options(machine, request.memory_limit).capacity;
  if (request.headroom >= capacity)
    return fail(ErrorKind::usage,
                fmt::format("of {} nothing is left below a headroom of {}", format_bytes(capacity),
                            format_bytes(request.headroom)),
                "--headroom", "give less than the memory that there is");
  const auto host_scale = common_host_scale(source, machine, request.start);
  FORESHARD_TRY(host_scale);
  const PointRequest shared{request.memory_limit, *host_scale};
  return Tuner(source, machine, request, shared).find();
}

}  // namespace foreshard::sim
