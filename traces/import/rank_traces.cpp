#include "traces/import/rank_traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "traces/capture/hooks.hpp"
#include "traces/import/clock_alignment.hpp"
#include "traces/import/recorded_steps.hpp"

namespace foreshard::traces {
namespace {

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

/// A collective that runs as a kernel: a copy engine's copies say nothing of when the other ranks came.
bool is_collective_kernel(const DeviceOpRecord& op) {
  return op.kind == DeviceOpRecord::Kind::collective && op.communicator.valid() &&
         op.transport != Transport::copy_engine;
}

/// The rank's device ops with step, phase and sequence.
std::vector<RankOpRecord> ops_of(const Run& run, std::uint32_t rank, const std::vector<StepRecord>& steps,
                                 const std::vector<PhaseRecord>& phases, const std::vector<CommunicatorId>& numbers,
                                 const Labels& from, Labels& to) {
  std::map<std::pair<CommunicatorId, std::int32_t>, std::int32_t> next;
  std::vector<RankOpRecord> out;
  out.reserve(run.device_ops.size());
  for (const DeviceOpRecord& op : run.device_ops) {
    RankOpRecord row;
    row.rank = rank;
    row.op = op;
    if (op.label.valid()) row.op.label = to.intern(std::string(from.text(op.label)));
    if (op.communicator.value < numbers.size()) row.op.communicator = numbers[op.communicator.value];
    for (const StepRecord& step : steps)
      if (step.recording == Recording::trace && op.issue >= step.start && op.issue < step.end) row.step = step.index;
    for (const PhaseRecord& phase : phases)
      if (phase.recording == Recording::trace && op.issue >= phase.start && op.issue < phase.end)
        row.phase = to.intern(phase.name);
    if (row.step >= 0 && is_collective_kernel(row.op)) row.sequence = next[{row.op.communicator, row.step}]++;
    out.push_back(row);
  }
  return out;
}

RankCollectives collectives_of(const std::vector<RankOpRecord>& ops) {
  RankCollectives out;
  for (const RankOpRecord& row : ops)
    if (row.sequence >= 0) out[{row.op.communicator, row.step, row.sequence}] = {row.op.start, row.op.end};
  return out;
}

using CollectiveShape = std::tuple<CollectiveKind, Bytes>;
using CollectiveShapes = std::map<CollectiveKey, CollectiveShape>;

CollectiveShapes shapes_of(const std::vector<RankOpRecord>& ops) {
  CollectiveShapes out;
  for (const RankOpRecord& row : ops)
    if (row.sequence >= 0) out[{row.op.communicator, row.step, row.sequence}] = {row.op.collective, row.op.bytes};
  return out;
}

/// Whether both ranks ran the same collectives of the communicators that they share.
bool same_collectives(const CollectiveShapes& first, const CollectiveShapes& other) {
  std::set<CommunicatorId> shared;
  for (const auto& [key, shape] : first)
    if (std::any_of(other.begin(), other.end(),
                    [&](const auto& pair) { return pair.first.communicator == key.communicator; }))
      shared.insert(key.communicator);
  const auto of_shared = [&](const CollectiveShapes& shapes) {
    CollectiveShapes out;
    for (const auto& [key, shape] : shapes)
      if (shared.contains(key.communicator)) out.emplace(key, shape);
    return out;
  };
  return of_shared(first) == of_shared(other);
}

struct Rank {
  std::uint32_t rank = 0;
  std::string file;
  std::int64_t origin_ns = 0;
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

Result<Rank> read_rank(RankTrace& other, const FirstRank& first, Communicators& communicators, Run& run,
                       std::size_t& steps_there) {
  const Run& theirs = other.trace.run;
  const auto hooks = find_hooks(trace_ranges(theirs), run.units);
  if (!hooks) {
    Error error = hooks.error();
    error.where = error.where.empty() ? other.file : other.file + ", " + error.where;
    return tl::unexpected(std::move(error));
  }
  const std::vector<StepRecord> steps = step_records(*hooks, Recording::trace);
  steps_there = steps.size();
  Rank rank{*other.trace.rank, other.file, other.trace.origin_ns,
            ops_of(theirs, *other.trace.rank, steps, phase_records(*hooks, Recording::trace),
                   communicators.numbers(other.trace.communicators), theirs.labels, run.labels)};
  if (!far_apart(first.origin_ns, rank.origin_ns)) shift(rank.ops, {rank.origin_ns - first.origin_ns});
  return rank;
}

Result<void> check_identities(const FirstRank& first, const std::vector<RankTrace>& others) {
  std::set<std::uint32_t> ranks{first.rank};
  for (const RankTrace& other : others) {
    if (!other.trace.rank)
      return fail(ErrorKind::mismatch, "does not say which rank it is of", other.file,
                  "distributedInfo is written where torch.distributed is initialised before the profiler starts");
    if (!ranks.insert(*other.trace.rank).second)
      return fail(ErrorKind::mismatch, fmt::format("is of rank {}, as another trace is", *other.trace.rank), other.file,
                  "give each rank's trace once, of one run");
    if (first.world_size && other.trace.world_size && *first.world_size != *other.trace.world_size)
      return fail(
          ErrorKind::mismatch,
          fmt::format("is of a world of {} ranks, the first trace of {}", *other.trace.world_size, *first.world_size),
          other.file, "give the traces of one run");
  }
  return {};
}

std::string list_of(const std::vector<RankRecord>& ranks) {
  std::string out;
  constexpr std::size_t kNamed = 8;
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i].rank);
  return ranks.size() > kNamed ? out + ", …" : out;
}

void leave_out(const Rank& rank, const std::string& why, Run& run) {
  run.import_stats.push_back({"rank_left_out", ImportStat::Severity::data_loss, 1,
                              fmt::format("{} of rank {} is left out: {}", rank.file, rank.rank, why)});
}

/// Brings the clocks together, and appends the ranks that can be.
void append_aligned(std::vector<Rank> ranks, Run& run) {
  std::vector<RankCollectives> collectives;
  for (const Rank& rank : ranks) collectives.push_back(collectives_of(rank.ops));
  const auto offsets = align_clocks(collectives);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!offsets[i]) {
      leave_out(ranks[i],
                "its clock cannot be brought to the others' (it is of another run or other steps, or shares "
                "no collective with them)",
                run);
      continue;
    }
    shift(ranks[i].ops, offsets[i]->offset);
    run.ranks.push_back({ranks[i].rank, offsets[i]->offset, offsets[i]->error});
    run.rank_ops.insert(run.rank_ops.end(), ranks[i].ops.begin(), ranks[i].ops.end());
  }
}

}  // namespace

Result<void> add_ranks(const FirstRank& first, std::vector<RankTrace> others, Run& run) {
  if (others.empty()) return {};
  FORESHARD_TRY(check_identities(first, others));
  std::sort(others.begin(), others.end(),
            [](const RankTrace& a, const RankTrace& b) { return *a.trace.rank < *b.trace.rank; });
  Communicators communicators(first.communicators);
  std::vector<Rank> ranks;
  const Labels labels = run.labels;
  ranks.push_back(
      {first.rank,
       {},
       first.origin_ns,
       ops_of(run, first.rank, run.steps, run.phases, communicators.numbers(first.communicators), labels, run.labels)});
  const CollectiveShapes shapes = shapes_of(ranks.front().ops);
  for (RankTrace& other : others) {
    std::size_t steps = 0;
    auto rank = read_rank(other, first, communicators, run, steps);
    FORESHARD_TRY(rank);
    other.trace = {};
    const std::size_t wanted = static_cast<std::size_t>(std::count_if(
        run.steps.begin(), run.steps.end(), [](const StepRecord& s) { return s.recording == Recording::trace; }));
    if (far_apart(first.origin_ns, rank->origin_ns))
      leave_out(*rank, fmt::format("it begins more than a day before or after rank {}'s", first.rank), run);
    else if (too_long(rank->ops) || too_long(ranks.front().ops))
      leave_out(*rank, "it or the first rank's lasts for more than a day", run);
    else if (steps != wanted)
      leave_out(*rank, fmt::format("it has {} complete steps, rank {}'s {}", steps, first.rank, wanted), run);
    else if (!same_collectives(shapes, shapes_of(rank->ops)))
      leave_out(*rank, fmt::format("its collectives are not those of rank {}", first.rank), run);
    else
      ranks.push_back(std::move(*rank));
  }
  append_aligned(std::move(ranks), run);
  if (first.world_size && run.ranks.size() < *first.world_size)
    run.import_stats.push_back(
        {"ranks_missing", ImportStat::Severity::info, *first.world_size - run.ranks.size(),
         fmt::format("only ranks {} of {} are recorded: a collective may wait for one that is not", list_of(run.ranks),
                     *first.world_size)});
  return {};
}

}  // namespace foreshard::traces
