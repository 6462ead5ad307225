#include "core/explain_time/time_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/units.hpp"
#include "core/device/collective_names.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/run/allocation_names.hpp"
#include "core/run/phase_words.hpp"

namespace foreshard {
namespace {

constexpr double kWorthSaying = 0.01;  // of the step

std::string in_ms(Nanoseconds time) {
  return fmt::format("{:.2f} ms", time.ms());
}

std::string kernel_words(const std::string& label) {
  return label.empty() ? "a kernel" : short_op_title(label);
}

std::string unit_words(const std::string& unit) {
  return unit.empty() || unit == "root" ? "the root" : unit;
}

std::string unit_of(const Run& run, std::size_t op) {
  if (op >= run.device_ops.size()) return "an earlier unit";
  const UnitId unit = run.device_ops[op].unit;
  return unit.value < run.units.size() ? unit_words(run.units[unit.value].name) : "an earlier unit";
}

std::string host_words(const Run& run, const IdlePart& part) {
  const std::string& label = run.labels.text(part.host);
  return label.empty() ? std::string() : fmt::format(", in {}", label);
}

bool collective(const Run& run, std::size_t op) {
  return op < run.device_ops.size() && run.device_ops[op].kind == DeviceOpRecord::Kind::collective;
}

/// The prefetch rule that issues an all-gather where it is issued (fsdp2 semantics 4.4, 4.5).
std::string prefetch_words(const Run& run, const IdlePart& part) {
  if (!collective(run, part.op) || run.device_ops[part.op].collective != CollectiveKind::all_gather) return {};
  const Settings& s = run.settings;
  if (part.issued_in == "forward" && s.prefetch_lists.forward.empty())
    return s.forward_prefetch ? fmt::format(": {} ahead in forward", *s.forward_prefetch)
                              : ": its own pre-forward issues it, without forward prefetch";
  if (part.issued_in == "backward" && s.prefetch_lists.backward.empty())
    return s.backward_prefetch ? fmt::format(": {} ahead in backward", *s.backward_prefetch)
                               : ": by default one ahead in backward";
  return {};
}

/// "the first gather (2.97 ms, all-gather of the root, 1002 MiB)": the cause's time, and its longest part.
std::string unhidden(const Run& run, const TimeExplanation& e, const CauseTotal& total) {
  const IdlePart& part = e.parts[total.longest];
  return fmt::format("{} ({}, {})", part.cause == IdleCause::first_gather ? "the first gather" : "the last reduction",
                     in_ms(total.time), op_words(run, part.op));
}

/// What most of the exposed communication is.
std::string communication_words(const Run& run, const TimeExplanation& e, const CauseTotals& totals) {
  const CauseTotal& first = totals[static_cast<std::size_t>(IdleCause::first_gather)];
  const CauseTotal& last = totals[static_cast<std::size_t>(IdleCause::last_reduction)];
  const Nanoseconds unhideable = first.time + last.time;
  auto most = IdleCause::prefetch;
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (cause >= IdleCause::prefetch && is_communication(cause) &&
        totals[static_cast<std::size_t>(cause)].time > totals[static_cast<std::size_t>(most)].time)
      most = cause;
  const CauseTotal& other = totals[static_cast<std::size_t>(most)];
  Nanoseconds host;  // a collective runs, and what follows it had not been issued
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (is_host(cause)) host += totals[static_cast<std::size_t>(cause)].exposed;
  const auto share = [&](Nanoseconds time) {
    return 2 * time.count >= e.exposed_communication.count ? fmt::format("most of it ({})", in_ms(time))
                                                           : fmt::format("{} of it", in_ms(time));
  };
  if (host > std::max(unhideable, other.time)) return fmt::format(", {} while the host is late as well", share(host));
  if (unhideable >= other.time) {
    if (unhideable.count == 0) return {};
    std::string what;
    if (last.parts > 0) what = unhidden(run, e, last);
    if (first.parts > 0) what += (what.empty() ? "" : " and ") + unhidden(run, e, first);
    return fmt::format(", {} {}, which nothing can hide with these units",
                       2 * unhideable.count >= e.exposed_communication.count ? "most of it" : "of it", what);
  }
  const IdlePart& longest = e.parts[other.longest];
  switch (most) {
    case IdleCause::late_rank:
      return fmt::format(", {} {}waiting for {}", share(other.time),
                         run.ranks.size() > 1 ? fmt::format("rank {}'s ", run.ranks.front().rank) : std::string(),
                         longest.rank ? fmt::format("other ranks, longest for rank {}", *longest.rank) : "other ranks");
    case IdleCause::previous_collective:
      return fmt::format(", {} in collectives that queue behind one another: they fill {} of the step",
                         share(other.time), in_ms(e.communication));
    case IdleCause::contention:
      return fmt::format(", {} because kernels beside them slow collectives down", share(other.time));
    default:
      return fmt::format(", {} {} ({})", share(other.time), title(most), chain_words(run, longest));
  }
}

/// " (first gather 12.40 ms, contention 1.36 ms)": of waits, whose sum is no row of the table, the two longest causes.
std::string wait_words(const CauseTotals& totals) {
  std::vector<IdleCause> causes;
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (is_communication(cause) || cause == IdleCause::copies) causes.push_back(cause);
  const auto time = [&](IdleCause cause) { return totals[static_cast<std::size_t>(cause)].time; };
  std::stable_sort(causes.begin(), causes.end(), [&](IdleCause a, IdleCause b) { return time(a) > time(b); });
  std::string out = fmt::format(" ({} {}", title(causes[0]), in_ms(time(causes[0])));
  if (time(causes[1]).count > 0) out += fmt::format(", {} {}", title(causes[1]), in_ms(time(causes[1])));
  return out + (time(causes[2]).count > 0 ? ", …)" : ")");
}

std::string cpu_optimizer_words(Nanoseconds time, const std::string& step) {
  return fmt::format("the optimizer on the CPU takes {} of {} a step, while the GPU waits", in_ms(time), step);
}

/// "most of it in backward": the phase in which the host is late for longest, an optimizer on the CPU left out; `host`
/// is all of it.
std::string host_phase(const std::vector<PhaseTime>& phases, Nanoseconds host, Nanoseconds cpu_optimizer) {
  const auto late = [&](const PhaseTime& row) {
    return row.phase == kOptimizerPhase ? row.host - cpu_optimizer : row.host;
  };
  const auto most = std::max_element(phases.begin(), phases.end(),
                                     [&](const PhaseTime& a, const PhaseTime& b) { return late(a) < late(b); });
  if (most == phases.end()) return {};
  return fmt::format(", {} {}", 2 * late(*most).count >= host.count ? "most of it" : "the largest part",
                     in_phase(most->phase));
}

}  // namespace

CauseTotals cause_totals(const TimeExplanation& explanation) {
  CauseTotals totals;
  for (std::size_t i = 0; i < explanation.parts.size(); ++i) {
    const IdlePart& part = explanation.parts[i];
    CauseTotal& total = totals[static_cast<std::size_t>(part.cause)];
    if (total.parts == 0 || part.length() > explanation.parts[total.longest].length()) total.longest = i;
    total.time += part.length();
    total.exposed += part.exposed;
    ++total.parts;
  }
  return totals;
}

std::string_view title(IdleCause cause) {
  constexpr std::array<std::string_view, kEnumSize<IdleCause>> kTitles{"host: issuing",
                                                                       "host: caching allocator",
                                                                       "host: synchronizing",
                                                                       "launch and event latency",
                                                                       "gaps between kernels",
                                                                       "first gather",
                                                                       "last reduction",
                                                                       "issued late",
                                                                       "behind another collective",
                                                                       "behind an earlier copy-out",
                                                                       "behind its gradients",
                                                                       "behind other compute",
                                                                       "contention",
                                                                       "late ranks",
                                                                       "copies"};
  return kTitles[static_cast<std::size_t>(cause)];
}

std::string op_words(const Run& run, std::size_t op) {
  if (op >= run.device_ops.size()) return "the step's end";
  const DeviceOpRecord& record = run.device_ops[op];
  if (record.kind != DeviceOpRecord::Kind::collective) return kernel_words(run.labels.text(record.label));
  std::string text = std::string(dashed_name(record.collective));
  if (record.unit.value < run.units.size()) text += " of " + unit_words(run.units[record.unit.value].name);
  return record.bytes > 0 ? fmt::format("{}, {}", text, format_bytes(record.bytes)) : text;
}

std::string chain_words(const Run& run, const IdlePart& part) {
  const std::string what = op_words(run, part.op);
  const std::string behind = part.behind == kNoDeviceOp ? std::string("earlier work") : op_words(run, part.behind);
  switch (part.cause) {
    case IdleCause::issuing:
      return fmt::format("the host had not issued {} yet{}", what, host_words(run, part));
    case IdleCause::allocator:
      return fmt::format("the caching allocator held the host up{}, before {}", host_words(run, part), what);
    case IdleCause::synchronize:
      return fmt::format("the host waited for the GPU{}, before {}", host_words(run, part), what);
    case IdleCause::launch:
      return fmt::format("{} was on its way", what);
    case IdleCause::kernel_gap:
      return fmt::format("between {} and {}", behind, what);
    case IdleCause::first_gather:
      return fmt::format("{}: nothing of the forward can run before it", what);
    case IdleCause::last_reduction:
      return fmt::format("{}: the optimizer needs it, and no backward is left", what);
    case IdleCause::prefetch:
      return fmt::format("{} was issued only then{}{}", what, host_words(run, part), prefetch_words(run, part));
    case IdleCause::previous_collective:
      return fmt::format("{} was behind {}", what, behind);
    case IdleCause::buffer:
      return fmt::format("{} waited for the copy-out of {}", what, unit_of(run, part.behind));
    case IdleCause::gradients:
      return fmt::format("{} waited for its gradients ({})", what, behind);
    case IdleCause::dependency:
      return fmt::format("{} waited for {}", what, behind);
    case IdleCause::contention:
      return collective(run, part.op) ? fmt::format("{} was slowed down by {} beside it", what, behind)
                                      : fmt::format("{} found no SM free beside {}", what, behind);
    case IdleCause::late_rank:
      return part.rank ? fmt::format("{} waited for rank {}", what, *part.rank)
                       : fmt::format("{} waited for other ranks, which are not recorded", what);
    case IdleCause::copies:
      return fmt::format("{} on another stream", what);
  }
  return what;
}

std::string stretch_words(const Run& run, const TimeExplanation& explanation, const PathStretch& stretch,
                          std::size_t count) {
  std::string units = stretch.unit;
  if (!units.empty() && stretch.unit != stretch.last_unit) units += " to " + stretch.last_unit;
  if (stretch.computes) return fmt::format("{}{}", phase_title(stretch.phase), units.empty() ? "" : " of " + units);
  const std::size_t op = explanation.parts[stretch.part].op;
  if (count == 1 && !is_host(stretch.cause))
    return fmt::format("waits: {}: {}", title(stretch.cause), op_words(run, op));
  const std::string what = collective(run, op) && !is_host(stretch.cause)
                               ? fmt::format(": {}s", dashed_name(run.device_ops[op].collective))
                               : std::string();
  return fmt::format("waits: {}{}{}", title(stretch.cause), what,
                     units.empty() ? "" : (what.empty() ? ", " : " of ") + units);
}

std::string next_words(const Run& run, const IdleGap& gap) {
  if (gap.next == kNoDeviceOp) return "the end of the step";
  const std::string_view range = run.labels.text(gap.range);
  const auto open = range.find(" (");
  const bool named = open != std::string_view::npos && range.ends_with(')');
  const std::string unit = named ? std::string(range.substr(open + 2, range.size() - open - 3)) : "the root";
  if (range.starts_with("FSDP::all_gather_copy_out")) return "the copy-out of " + unit;
  if (range.starts_with("FSDP::post_backward_reduce"))
    return fmt::format("the reduce-scatter's copy-in of {}, which waits until the one before has freed its input",
                       unit);
  if (range.starts_with("Optimizer")) return "the optimizer";
  return op_words(run, gap.next);
}

std::string cpu_optimizer_clause(const Run& run, const TimeExplanation& e) {
  const Nanoseconds time = cpu_optimizer_time(run, e);
  const Nanoseconds rest = e.idle() - time;
  return time > rest ? cpu_optimizer_words(time, in_ms(e.length())) : std::string();
}

std::string time_headline(const Run& run, const TimeExplanation& e) {
  const CauseTotals totals = cause_totals(e);
  const std::vector<PhaseTime> phases = phase_times(run, e);
  const Nanoseconds cpu_optimizer = cpu_optimizer_time(run, e);
  const Nanoseconds host = total(phases).host - cpu_optimizer;
  const Nanoseconds gaps = totals[static_cast<std::size_t>(IdleCause::kernel_gap)].time;
  const Nanoseconds latencies = totals[static_cast<std::size_t>(IdleCause::launch)].time;
  Nanoseconds communication;
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (is_communication(cause) || cause == IdleCause::copies)
      communication += totals[static_cast<std::size_t>(cause)].time;
  const std::string step = in_ms(e.length());
  // Waits for ranks before a copy-engine collective begins are no time of its own, and so not exposed.
  const bool waits = communication.count > e.exposed_communication.count + e.exposed_communication.count / 20;
  const Nanoseconds exposed = waits ? communication : e.exposed_communication;
  const auto exposed_words = [&](const std::string& of) {
    return in_ms(exposed) + of + (waits ? "wait for communication" : "are exposed communication");
  };
  const std::string of_it = waits ? fmt::format(" ({} exposed)", in_ms(e.exposed_communication)) : std::string();
  const Nanoseconds least = e.length().scaled(kWorthSaying);
  const std::pair<Nanoseconds, std::string> clauses[] = {
      {exposed, exposed_words(" of " + step + " a step ") + of_it + communication_words(run, e, totals)},
      {cpu_optimizer, cpu_optimizer_words(cpu_optimizer, step)},
      {host, fmt::format("the host is late for {} of {} a step{}", in_ms(host), step,
                         host_phase(phases, host, cpu_optimizer))},
      {gaps, fmt::format("gaps between kernels take {} of {} a step", in_ms(gaps), step)},
      {latencies, fmt::format("launch and event latencies take {} of {} a step", in_ms(latencies), step)}};
  const std::string shorter[] = {
      exposed_words(" ") + (waits ? wait_words(totals) : std::string()),
      fmt::format("the optimizer on the CPU takes {}", in_ms(cpu_optimizer)),
      fmt::format("the host is late for {}{}", in_ms(host), cpu_optimizer.count > 0 ? " beside it" : ""),
      fmt::format("gaps between kernels take {}", in_ms(gaps)),
      fmt::format("launch and event latencies take {}", in_ms(latencies))};
  const auto most =
      static_cast<std::size_t>(std::max_element(std::begin(clauses), std::end(clauses),
                                                [](const auto& a, const auto& b) { return a.first < b.first; }) -
                               std::begin(clauses));
  std::string text = clauses[most].first < least
                         ? fmt::format("the GPU computes for {} of {} a step", in_ms(e.compute), step)
                         : clauses[most].second;
  for (std::size_t i = 0; i < std::size(clauses); ++i)
    if (i != most && clauses[i].first >= least) text += "; " + shorter[i];
  if (e.kernel_contention >= least)
    text += fmt::format("; kernels lose {} beside collectives", in_ms(e.kernel_contention));
  return text;
}

}  // namespace foreshard
