#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/explain_time/collective_reasons.hpp"
#include "core/explain_time/run_facts.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/steady_step.hpp"
#include "core/timeline/check_times.hpp"

namespace foreshard {
namespace {

using namespace explain_time_detail;

/// One gap may hold so many links of the chain; a real one has a few.
constexpr int kMaxLinks = 1'000;

class Explainer {
 public:
  Explainer(const RunFacts& facts, const StepRecord& step, const DeviceSpan& span)
      : facts_(facts),
        run_(facts.run),
        places_(facts.of.at(step.recording).places),
        host_(facts.of.at(step.recording).host),
        waits_(facts.waits),
        delays_(facts.delays),
        reasons_(facts, step) {
    out_.recording = step.recording;
    out_.step = step.index;
    out_.begin = span.begin;
    out_.end = span.end;
  }

  TimeExplanation explain() {
    Nanoseconds at = out_.begin;
    for (const std::size_t op : facts_.compute_ops(out_.begin, out_.end)) {
      const DeviceOpRecord& record = op_at(op);
      gap(op, at, std::max(at, record.start));
      at = std::max(at, std::min(record.end, out_.end));
    }
    gap(kNoDeviceOp, at, out_.end);
    out_.compute = out_.length();
    for (const IdleGap& gap : out_.gaps) out_.compute -= gap.length();
    add_communication();
    add_kernel_contention();
    return std::move(out_);
  }

 private:
  [[nodiscard]] const DeviceOpRecord& op_at(std::size_t index) const { return run_.device_ops[index]; }
  [[nodiscard]] static bool computes(const DeviceOpRecord& op) {
    return op.stream == kComputeStream && op.kind != DeviceOpRecord::Kind::collective;
  }

  void add_communication() {
    out_.communication = covered(facts_.collectives, out_.begin, out_.end);
    for (IdlePart& part : out_.parts) {
      part.exposed = covered(facts_.collectives, part.start, part.end);
      out_.exposed_communication += part.exposed;
    }
  }

  void add_kernel_contention() {
    if (!facts_.contentions) return;
    KernelContention found = facts_.contentions->in(places_, out_.begin, out_.end);
    for (const auto& [phase, time] : found.of_phase) out_.kernel_contention += time;
    out_.contention_of_phase = std::move(found.of_phase);
    out_.kernel_contention_unknown = found.unknown;
  }

  /// Ended by `next`, or by the step's end.
  void gap(std::size_t next, Nanoseconds from, Nanoseconds to) {
    if (to <= from) return;
    IdleGap gap{from, to, next, out_.parts.size(), 0, {}, {}};
    if (next != kNoDeviceOp) {
      gap.phase = places_.phase(op_at(next));
      gap.range = host_.range_at(op_at(next).issue);
    }
    phase_ = gap.phase;
    const std::size_t first = out_.parts.size();
    walk(next, from, to);
    std::reverse(out_.parts.begin() + static_cast<std::ptrdiff_t>(first), out_.parts.end());
    join(first);
    gap.parts = out_.parts.size() - first;
    out_.gaps.push_back(std::move(gap));
  }

  /// Adds the gap's parts, the last one first: from the op that ended it back along what held each op up last.
  void walk(std::size_t next, Nanoseconds from, Nanoseconds to) {
    Nanoseconds until = to;
    std::size_t at = next;
    std::size_t serves = kNoDeviceOp;  // the collective that the op at hand is a piece of
    if (at == kNoDeviceOp && (at = facts_.last_collective(from, to)) != kNoDeviceOp) {
      serves = at;
      idle(IdleCause::launch, op_at(at).end, to, at);
      until = waited(at, serves, from, op_at(at).end);
    }
    for (int hop = 0; at != kNoDeviceOp && until > from && hop < kMaxLinks; ++hop) {
      const Wait wait = waits_.of(at);
      const Nanoseconds done = std::clamp(wait.at, from, until);
      late(at, at == next, wait, serves, done, until);
      until = done;
      if (until <= from) return;
      if (wait.what == Wait::For::issue) return host(from, until, at);
      if (collective(wait.source))
        serves = wait.source;
      else if (serves == kNoDeviceOp)
        serves = reasons_.collective_before(wait.source);
      until = waited(wait.source, serves, from, until);
      at = wait.source;
    }
    idle(IdleCause::launch, from, until, at);
  }

  /// `op` began at `to`; all that it waited for was done at `from`. `ends`: it ends the gap.
  void late(std::size_t op, bool ends, const Wait& wait, std::size_t serves, Nanoseconds from, Nanoseconds to) {
    if (wait.for_peers) return idle(IdleCause::late_rank, from, to, op);
    if (wait.queued_behind != kNoDeviceOp) return idle(IdleCause::contention, from, to, op, wait.queued_behind);
    if (!ends && serves != kNoDeviceOp && wait.what != Wait::For::issue) {
      const Reason reason = reasons_.of(serves);
      return idle(reason.cause, from, to, serves, reason.behind, reason.host);
    }
    const bool in_order = ends && wait.what == Wait::For::stream && computes(op_at(wait.source));
    idle(in_order && to - from <= kKernelGap ? IdleCause::kernel_gap : IdleCause::launch, from, to, op, wait.source);
  }
  [[nodiscard]] bool collective(std::size_t op) const { return op_at(op).kind == DeviceOpRecord::Kind::collective; }

  /// The part of `op`'s run in [from, to), which is waited for; returns where it begins.
  Nanoseconds waited(std::size_t op, std::size_t serves, Nanoseconds from, Nanoseconds to) {
    const Nanoseconds start = std::clamp(op_at(op).start, from, to);
    if (to <= start || computes(op_at(op))) return start;
    if (serves == kNoDeviceOp) {
      idle(IdleCause::copies, start, to, op);
      return start;
    }
    const Reason reason = reasons_.of(serves);
    Nanoseconds end = to, begin = start;
    const auto late = collective(op) ? delays_.late_start(op_at(op)) : std::nullopt;
    if (late) begin = std::clamp(late->start, start, to);
    if (collective(op)) end -= slowed(op, begin, end);
    idle(reason.cause, begin, end, serves, reason.behind, reason.host);
    if (late && begin > start) {
      idle(IdleCause::late_rank, start, begin, op);
      out_.parts.back().rank = late->rank;
    }
    return start;
  }

  /// Without kernels beside it the collective would have ended earlier by the part that is returned, the last of its
  /// run: it would have begun when all that it waited for was done, and taken its isolated time.
  Nanoseconds slowed(std::size_t op, Nanoseconds from, Nanoseconds to) {
    CollectiveDelays::Slowing slowing = delays_.slowing(op);
    const Wait wait = waits_.of(op);
    if (wait.queued_behind != kNoDeviceOp) {
      slowing.time += std::max(Nanoseconds{}, op_at(op).start - std::max(wait.at, out_.begin));
      slowing.beside = wait.queued_behind;
    }
    const Nanoseconds slower = std::min(slowing.time, to - from);
    if (slowing.unknown) out_.contention_unknown += to - from - slower;
    idle(IdleCause::contention, to - slower, to, op, slowing.beside);
    return slower;
  }

  void host(Nanoseconds from, Nanoseconds to, std::size_t op) {
    const std::vector<HostPiece> pieces = host_.pieces(from, to);
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
      idle(piece->cause, piece->start, piece->end, op, kNoDeviceOp, piece->during, piece->phase);
  }

  void idle(IdleCause cause, Nanoseconds start, Nanoseconds end, std::size_t op, std::size_t behind = kNoDeviceOp,
            LabelId host = {}, std::string phase = {}) {
    if (end <= start) return;
    IdlePart part{start, end, cause, out_.gaps.size(), op, behind, host, {}, {}, {}, {}, {}};
    part.phase = is_host(cause) ? std::move(phase) : phase_;
    if (op != kNoDeviceOp) part.unit = places_.unit(op_at(op));
    if (op != kNoDeviceOp && cause == IdleCause::prefetch) part.issued_in = places_.phase(op_at(op));
    out_.parts.push_back(std::move(part));
  }

  /// Neighbours of one cause and op are one part.
  void join(std::size_t first) {
    std::vector<IdlePart> joined;
    for (std::size_t i = first; i < out_.parts.size(); ++i) {
      IdlePart& part = out_.parts[i];
      if (!joined.empty() && joined.back().cause == part.cause && joined.back().op == part.op &&
          joined.back().host == part.host && joined.back().phase == part.phase && joined.back().behind == part.behind &&
          joined.back().rank == part.rank)
        joined.back().end = part.end;
      else
        joined.push_back(std::move(part));
    }
    out_.parts.resize(first);
    std::move(joined.begin(), joined.end(), std::back_inserter(out_.parts));
  }

  const RunFacts& facts_;
  const Run& run_;
  const Places& places_;
  const HostActivity& host_;
  const OpWaits& waits_;
  const CollectiveDelays& delays_;
  CollectiveReasons reasons_;
  std::string phase_;  // of the gap at hand
  TimeExplanation out_;
};

/// Why there is no time to explain.
tl::unexpected<Error> no_time(const Run& run, const std::optional<std::int32_t>& wanted) {
  if (const auto failure = plan_failure(run); !failure.empty())
    return fail(ErrorKind::input,
                fmt::format("there is no complete step whose time could be explained, because the plan {}", failure),
                run.info.name, "explain it without --time");
  if (const std::string why = step_time_unknown(run); !why.empty())
    return fail(ErrorKind::input, "the plan has no step time: " + why, run.info.name, "explain it without --time");
  std::string list;
  for (const StepRecord& record : run.steps)
    if (record.device_end) list += (list.empty() ? "" : ", ") + std::to_string(record.index);
  if (list.empty() && run.device_ops.empty() && run.info.kind == RunKind::imported)
    return fail(ErrorKind::input, "no device ops were recorded, so there is no time to explain", run.info.name,
                "import the run with --trace");
  if (list.empty())
    return run.info.kind == RunKind::imported
               ? fail(ErrorKind::input, "no step was recorded whole, so there is no time to explain", run.info.name,
                      "profile whole steps: from before zero_grad or forward to behind the optimizer's step")
               : fail(ErrorKind::input, "none of its steps came to an end, so there is no time to explain",
                      run.info.name, "explain it without --time: it ran out of memory, or deadlocks");
  return fail(ErrorKind::usage, wanted ? "it has no step " + std::to_string(*wanted) + " on the GPU" : "no step ended",
              run.info.name, "it has " + list);
}

}  // namespace

TimeExplainer::TimeExplainer(const Run& run, SlowedKernels slowed) : run_(run), times_(check_times(run)) {
  if (times_ && !run.device_ops.empty() && plan_failure(run).empty()) facts_ = std::make_unique<RunFacts>(run, slowed);
}
TimeExplainer::TimeExplainer(TimeExplainer&&) noexcept = default;
TimeExplainer::~TimeExplainer() = default;

std::optional<TimeExplanation> TimeExplainer::explain_at(std::size_t place) const {
  if (facts_ == nullptr || !facts_->spans[place]) return std::nullopt;
  return Explainer(*facts_, run_.steps[place], *facts_->spans[place]).explain();
}

Result<TimeExplanation> TimeExplainer::explain(const std::optional<std::int32_t>& step) const {
  FORESHARD_TRY(times_);
  if (const StepRecord* record = timed_step(run_, step); record != nullptr)
    if (auto explained = explain_at(static_cast<std::size_t>(record - run_.steps.data()))) return std::move(*explained);
  return no_time(run_, step);
}

Result<TimeExplanation> explain_time(const Run& run, const std::optional<std::int32_t>& step, SlowedKernels slowed) {
  return TimeExplainer(run, slowed).explain(step);
}

}  // namespace foreshard
