#include "traces/import/rank_traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/base/units.hpp"
#include "traces/capture/hooks.hpp"
#include "traces/import/clock_alignment.hpp"
#include "traces/import/recorded_steps.hpp"

namespace foreshard::traces {
namespace rank_traces_detail {

/// One number for a process group on all ranks: by its name and its members.
class Communicators {
 public:
  explicit Communicators(const std::vector<TraceCommunicator>& first) {
    for (const TraceCommunicator& communicator : first) number(communicator);
  }
  /// By a trace's own CommunicatorId.
  [[nodiscard]] std::vector<CommunicatorId> numbers(const std::vector<TraceCommunicator>& communicators) {
    std::vector<CommunicatorId> out;
    for (const TraceCommunicator& communicator : communicators) out.push_back(number(communicator));
    return out;
  }

 private:
  CommunicatorId number(const TraceCommunicator& communicator) {
    const auto next = static_cast<std::uint32_t>(numbers_.size());
    return numbers_.try_emplace({communicator.name, communicator.ranks, communicator.size}, CommunicatorId{next})
        .first->second;
  }
  std::map<std::tuple<std::string, std::string, std::uint64_t>, CommunicatorId> numbers_;
};

/// A collective that runs as a kernel: a copy engine's copies say nothing of when the other ranks came. Of the
/// kinds where every rank needs all others and moves as much as they.
bool is_collective_kernel(const DeviceOpRecord& op) {
  return op.kind == DeviceOpRecord::Kind::collective && op.communicator.valid() && of_fsdp(op.collective) &&
         op.transport != Transport::copy_engine;
}

/// The last of `spans`, by start and apart from one another, that holds `time`; null: none.
template <class Span>
const Span* span_at(const std::vector<Span>& spans, Nanoseconds time) {
  const auto after = std::upper_bound(spans.begin(), spans.end(), time,
                                      [](Nanoseconds t, const Span& span) { return t < span.start; });
  if (after == spans.begin()) return nullptr;
  const Span& span = *std::prev(after);
  return time < span.end ? &span : nullptr;
}

/// A rank's complete steps, and their phases, by start.
struct TracePeriods {
  std::vector<StepRecord> steps;
  std::vector<PhaseRecord> phases;
};

TracePeriods periods_of(std::vector<StepRecord> steps, std::vector<PhaseRecord> phases) {
  std::erase_if(steps, [](const StepRecord& step) { return step.recording != Recording::trace; });
  std::erase_if(phases, [](const PhaseRecord& phase) { return phase.recording != Recording::trace; });
  const auto by_start = [](const auto& a, const auto& b) { return a.start < b.start; };
  std::stable_sort(steps.begin(), steps.end(), by_start);
  std::stable_sort(phases.begin(), phases.end(), by_start);
  return {std::move(steps), std::move(phases)};
}

/// The rank's device ops with step, phase and sequence.
std::vector<RankOpRecord> ops_of(const Run& run, std::uint32_t rank, const TracePeriods& periods,
                                 const std::vector<CommunicatorId>& numbers, const Labels& from, Labels& to) {
  std::map<std::pair<CommunicatorId, std::int32_t>, std::int32_t> next;
  std::vector<RankOpRecord> out;
  out.reserve(run.device_ops.size());
  for (const DeviceOpRecord& op : run.device_ops) {
    RankOpRecord row;
    row.rank = rank;
    row.op = op;
    if (op.label.valid()) row.op.label = to.intern(std::string(from.text(op.label)));
    if (op.communicator.value < numbers.size()) row.op.communicator = numbers[op.communicator.value];
    if (const StepRecord* step = span_at(periods.steps, op.issue)) row.step = step->index;
    if (const PhaseRecord* phase = span_at(periods.phases, op.issue)) row.phase = to.intern(phase->name);
    if (row.step >= 0 && is_collective_kernel(row.op)) row.sequence = next[{row.op.communicator, row.step}]++;
    out.push_back(row);
  }
  return out;
}

RankCollectives collectives_of(const std::vector<RankOpRecord>& ops) {
  RankCollectives out;
  for (const RankOpRecord& row : ops)
    if (row.sequence >= 0) out[key_of(row)] = {row.op.start, row.op.end};
  return out;
}

using CollectiveShape = std::tuple<CollectiveKind, Bytes>;
using CollectiveShapes = std::map<CollectiveKey, CollectiveShape>;

CollectiveShapes shapes_of(const std::vector<RankOpRecord>& ops) {
  CollectiveShapes out;
  for (const RankOpRecord& row : ops)
    if (row.sequence >= 0) out[key_of(row)] = {row.op.collective, row.op.bytes};
  return out;
}

/// Those of communicators that `other` has, too.
CollectiveShapes shared_with(const CollectiveShapes& shapes, const CollectiveShapes& other) {
  std::set<CommunicatorId> communicators;
  for (const auto& [key, shape] : other) communicators.insert(key.communicator);
  CollectiveShapes out;
  for (const auto& [key, shape] : shapes)
    if (communicators.contains(key.communicator)) out.emplace(key, shape);
  return out;
}

struct Rank {
  std::uint32_t rank = 0;
  std::string file;
  std::vector<RankOpRecord> ops;
};

constexpr std::int64_t kDay = 86'400'000'000'000;  // clocks of one job's hosts are closer, and profiles shorter

bool far_apart(std::int64_t a, std::int64_t b) {
  return std::max(a, b) - kDay > std::min(a, b);
}

bool too_long(const std::vector<RankOpRecord>& ops) {
  return std::any_of(ops.begin(), ops.end(), [](const RankOpRecord& row) { return row.op.end.count > kDay; });
}

void shift(std::vector<RankOpRecord>& ops, Nanoseconds by) {
  for (RankOpRecord& row : ops)
    for (Nanoseconds* time : {&row.op.issue, &row.op.start, &row.op.end}) *time += by;
}

std::string list_of(const std::vector<RankRecord>& ranks) {
  std::string out;
  constexpr std::size_t kNamed = 8;
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i].rank);
  return ranks.size() > kNamed ? out + ", …" : out;
}

/// RankTraces, whose types need not be seen.
struct Collector {
  FirstRank first;
  Run& run;
  Communicators communicators;
  std::vector<Rank> ranks;
  TracePeriods periods;     // of the first
  CollectiveShapes shapes;  // of the first
  std::set<std::uint32_t> seen;

  Collector(const FirstRank& first_in, Run& run_in)
      : first(first_in),
        run(run_in),
        communicators(first_in.communicators),
        periods(periods_of(run.steps, run.phases)) {
    const Labels labels = run.labels;
    ranks.push_back({first.rank,
                     {},
                     ops_of(run, first.rank, periods, communicators.numbers(first.communicators), labels, run.labels)});
    shapes = shapes_of(ranks.front().ops);
    seen.insert(first.rank);
  }

  void leave_out(const std::string& file, const std::string& why) {
    run.import_stats.push_back(
        {"rank_left_out", ImportStat::Severity::data_loss, 1, fmt::format("{} is left out: {}", file, why)});
  }

  Result<void> check_identity(const RankTrace& other) {
    if (!other.trace.rank)
      return fail(ErrorKind::mismatch, "does not say which rank it is of", other.file,
                  "distributedInfo is written where torch.distributed is initialised before the profiler starts");
    FORESHARD_TRY(
        check_rank(other.trace.rank, other.trace.world_size ? other.trace.world_size : first.world_size, other.file));
    if (!seen.insert(*other.trace.rank).second)
      return fail(ErrorKind::mismatch, fmt::format("is of rank {}, as another trace is", *other.trace.rank), other.file,
                  "give each rank's trace once, of one run");
    if (first.world_size && other.trace.world_size && *first.world_size != *other.trace.world_size)
      return fail(
          ErrorKind::mismatch,
          fmt::format("is of a world of {} ranks, the first trace of {}", *other.trace.world_size, *first.world_size),
          other.file, "give the traces of one run");
    return {};
  }

  /// What was odd in a rank's trace; none is lost among the others'.
  void add_stats(std::uint32_t rank, std::vector<ImportStat> stats) {
    for (ImportStat& stat : stats) {
      stat.text = fmt::format("rank {}: {}", rank, stat.text);
      run.import_stats.push_back(std::move(stat));
    }
  }

  /// Empty, or why the rank cannot be set beside the first.
  std::string why_not(const std::vector<RankOpRecord>& ops, std::size_t steps, std::int64_t origin_ns) const {
    if (far_apart(first.origin_ns, origin_ns))
      return fmt::format("it begins more than a day before or after rank {}'s", first.rank);
    if (too_long(ops) || too_long(ranks.front().ops)) return "it or the first rank's lasts for more than a day";
    if (steps != periods.steps.size())
      return fmt::format("it has {} complete steps, rank {}'s {}", steps, first.rank, periods.steps.size());
    const CollectiveShapes theirs = shapes_of(ops);
    if (shared_with(shapes, theirs) != shared_with(theirs, shapes))
      return fmt::format("its collectives are not those of rank {}", first.rank);
    return {};
  }

  void take(RankTrace other) {
    Run& theirs = other.trace.run;
    const std::uint32_t rank = *other.trace.rank;
    const auto hooks = find_hooks(trace_ranges(theirs), run.units);
    if (!hooks) return leave_out(other.file, hooks.error().what);
    add_stats(rank, std::move(theirs.import_stats));
    add_stats(rank, hooks->stats);
    TracePeriods own = periods_of(step_records(*hooks, Recording::trace), phase_records(*hooks, Recording::trace));
    // The k-th complete step is the first rank's k-th: only one of them may have the end of another before it.
    if (own.steps.size() == periods.steps.size())
      for (std::size_t k = 0; k < own.steps.size(); ++k) own.steps[k].index = periods.steps[k].index;
    auto ops = ops_of(theirs, rank, own, communicators.numbers(other.trace.communicators), theirs.labels, run.labels);
    if (const std::string why = why_not(ops, own.steps.size(), other.trace.origin_ns); !why.empty())
      return leave_out(other.file, why);
    shift(ops, {other.trace.origin_ns - first.origin_ns});
    ranks.push_back({rank, other.file, std::move(ops)});
  }

  /// Clocks that differ by half a step or more may as well be profilers that began a step apart.
  void warn_of_steps_apart(const Rank& rank, Nanoseconds offset) {
    Nanoseconds shortest{kDay};
    for (const StepRecord& step : periods.steps) shortest = std::min(shortest, step.end - step.start);
    if (std::max(offset, Nanoseconds{} - offset) + std::max(offset, Nanoseconds{} - offset) < shortest) return;
    run.import_stats.push_back(
        {"clock_far_off", ImportStat::Severity::info, 1,
         fmt::format("rank {}'s clock is {} off the first one's: or its profiler began at another step", rank.rank,
                     format_time(offset))});
  }

  void finish() {
    std::sort(ranks.begin() + 1, ranks.end(), [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
    std::vector<RankCollectives> collectives;
    for (const Rank& rank : ranks) collectives.push_back(collectives_of(rank.ops));
    const auto offsets = align_clocks(collectives);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (!offsets[i]) {
        leave_out(ranks[i].file,
                  "its clock cannot be brought to the others' (it is of another run or other steps, or "
                  "shares no collective with them)");
        continue;
      }
      warn_of_steps_apart(ranks[i], offsets[i]->offset);
      shift(ranks[i].ops, offsets[i]->offset);
      run.ranks.push_back({ranks[i].rank, offsets[i]->offset, offsets[i]->error});
      run.rank_ops.insert(run.rank_ops.end(), ranks[i].ops.begin(), ranks[i].ops.end());
      ranks[i].ops = {};
    }
    if (first.world_size && run.ranks.size() < *first.world_size)
      run.import_stats.push_back(
          {"ranks_missing", ImportStat::Severity::info, *first.world_size - run.ranks.size(),
           fmt::format("only ranks {} of {} are recorded: a collective may wait for one that is not",
                       list_of(run.ranks), *first.world_size)});
  }
};

}  // namespace rank_traces_detail

Result<void> check_rank(std::optional<std::uint32_t> rank, std::optional<std::uint32_t> world,
                        const std::string& file) {
  if (!rank || !world || *rank < *world) return {};
  return fail(ErrorKind::mismatch, fmt::format("is of rank {}, and the world has {} ranks, from 0", *rank, *world),
              file, "give the traces of one run");
}

struct RankTraces::Impl : rank_traces_detail::Collector {
  using Collector::Collector;
};

RankTraces::RankTraces(const FirstRank& first, Run& run) : impl_(std::make_unique<Impl>(first, run)) {}
RankTraces::~RankTraces() = default;

Result<void> RankTraces::add(RankTrace other) {
  FORESHARD_TRY(impl_->check_identity(other));
  impl_->take(std::move(other));
  return {};
}

void RankTraces::leave_out(const std::string& file, const std::string& why) {
  impl_->leave_out(file, why);
}

void RankTraces::finish() {
  impl_->finish();
}

}  // namespace foreshard::traces
