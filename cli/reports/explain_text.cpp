// The report of explain for people.

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "cli/reports/as_it_is.hpp"
#include "cli/reports/explain_report.hpp"
#include "cli/reports/indented.hpp"
#include "cli/reports/remedy_json.hpp"
#include "cli/reports/run_summary.hpp"
#include "cli/reports/stored_pictures.hpp"
#include "cli/reports/straggler_report.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/add_up.hpp"
#include "core/base/units.hpp"
#include "core/run/block_names.hpp"
#include "core/run/graph_replay.hpp"
#include "core/run/phase_words.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/run_names.hpp"
#include "core/run/step_shapes.hpp"
#include "core/run/step_title.hpp"
#include "core/step/graph_schedule.hpp"
#include "core/straggler/straggler_text.hpp"

namespace foreshard::cli {
namespace {

constexpr std::size_t kRows = 8;  ///< of a table; --json has all

std::string unit_name(const Run& run, UnitId unit) {
  if (unit.value >= run.units.size()) return "(no unit)";
  return run.units[unit.value].name.empty() ? "(root)" : run.units[unit.value].name;
}

std::string where(const ExplainReport& report, const Moment& moment) {
  const Explanation& e = report.explanation;
  const char* all = report.run.info.kind == RunKind::imported ? "the recording" : "the run";
  const std::string period = e.step ? fmt::format("step {}", *e.step) : std::string(all);
  std::string text = fmt::format("{} after {} begins", format_time(moment.at.time - e.start), period);
  if (moment.at.time < e.start) text = "before it begins";
  if (counts_events(report.run))
    text = fmt::format("at {} of {}", moment_words(moment.at.time - e.start, 0, true), period);
  if (!moment.phase.empty()) text += ", in " + moment.phase;
  return text;
}

/// Segments stay: much of a step's time may be at the peak of reserved memory, of which explain() takes the moment with
/// most of it in use; pictures and the page mark where it was first reached.
std::string since_when(const Run& run, const Explanation& e, const Moment& moment) {
  if (counts_events(run)) return {};
  const auto first = std::find_if(e.series.begin(), e.series.end(), [&](const GapPoint& point) {
    return point.parts.reserved() == moment.at.parts.reserved();
  });
  if (first == e.series.end() || first->time >= moment.at.time) return {};
  return fmt::format(
      "; as much is reserved {}: this is when most of it is in use",
      first->time <= e.start ? "from the begin on" : fmt::format("from {} on", format_time(first->time - e.start)));
}

void print_gap(std::ostream& out, const ExplainReport& report, const Moment& moment, const std::string& title) {
  const MemoryParts& parts = moment.at.parts;
  const Explanation& e = report.explanation;
  out << '\n'
      << title << " (" << where(report, moment) << (e.asked ? std::string() : since_when(report.run, e, moment))
      << ")\n";
  Table table({{"part"}, {"bytes", Table::Align::right}, {"of reserved", Table::Align::right}, {"what it is"}});
  const std::vector<NamedPart> named = named_parts(parts);
  std::vector<double> bytes;
  for (const NamedPart& part : named) bytes.push_back(static_cast<double>(part.bytes));
  const std::vector<double> shares = shares_of(bytes, 1);
  const PrintedParts sizes = printed_memory_parts(parts);
  const auto percent = [&](double share) {
    return parts.reserved() == 0 ? std::string() : fmt::format("{:.1f} %", share);
  };
  double so_far = 0;
  const auto sum = [&](const char* what, Bytes of, const char* meaning) {
    table.row({what, format_bytes_fixed(of), percent(so_far), meaning});
  };
  for (std::size_t i = 0; i < named.size(); ++i) {
    so_far += shares[i];
    table.row({"  " + std::string(named[i].name), format_bytes_fixed(sizes.named[i]), percent(shares[i]),
               std::string(named[i].meaning)});
    if (i == 1) sum("allocated", sizes.allocated, "requested + rounding");
    if (i == 2) sum("active", sizes.active, "allocated + pending_free");
  }
  sum("reserved", parts.reserved(), "all of these");
  table.print(out);
}

/// The largest blocks in use: what each belongs to, what made it, and the user's line that did, where stacks tell.
void print_largest(std::ostream& out, const ExplainReport& report, const Moment& moment) {
  if (moment.largest.empty()) return;
  const auto right = Table::Align::right;
  const BlockNames names(report.run);
  const auto shown = std::span(moment.largest).first(std::min(moment.largest.size(), kRows));
  const bool frames = std::any_of(shown.begin(), shown.end(),
                                  [&](const HeldBlock& block) { return !names.frame(block.stack).empty(); });
  out << "\nthe largest blocks then\n";
  std::vector<Table::Column> columns{{"block", right}, {"size", right}, {"category"}, {"of"}, {"allocated by"}};
  if (frames) columns.push_back({"at"});
  Table table(columns);
  for (const HeldBlock& block : shown) {
    const BlockRecord* record =
        block.block.value < report.run.blocks.size() ? &report.run.blocks[block.block.value] : nullptr;
    std::vector<std::string> row{record != nullptr ? std::to_string(block.block.value) : "older",
                                 format_bytes_fixed(block.size), std::string(category_name(block.category)),
                                 record != nullptr ? names.owner(*record) : "",
                                 record != nullptr ? names.op(*record) : ""};
    if (frames) row.push_back(names.frame(block.stack));
    table.row(row);
  }
  table.print(out);
}

void print_holders(std::ostream& out, const ExplainReport& report, const Moment& moment) {
  const auto right = Table::Align::right;
  out << "\nwho holds it then\n";
  Table categories({{"category"}, {"in use", right}, {"pending free", right}, {"blocks", right}});
  for (const auto& share : moment.categories)
    categories.row({std::string(category_name(share.key)), format_bytes_fixed(share.live),
                    share.pending > 0 ? format_bytes_fixed(share.pending) : "", std::to_string(share.blocks)});
  categories.print(out);
  if (std::any_of(moment.units.begin(), moment.units.end(), [](const auto& share) { return share.key.valid(); })) {
    out << '\n';
    Table units({{"unit"}, {"in use", right}, {"pending free", right}, {"blocks", right}});
    for (std::size_t i = 0; i < moment.units.size() && i < kRows; ++i) {
      const auto& share = moment.units[i];
      units.row({unit_name(report.run, share.key), format_bytes_fixed(share.live),
                 share.pending > 0 ? format_bytes_fixed(share.pending) : "", std::to_string(share.blocks)});
    }
    if (moment.units.size() > kRows) units.row({fmt::format("… {} more", moment.units.size() - kRows)});
    units.print(out);
  }
  out << '\n';
  Table streams({{"stream or pool"},
                 {"reserved", right},
                 {"in use", right},
                 {"pending free", right},
                 {"free", right},
                 {"segments", right}});
  const auto add = [&](const Holding& holding, const std::string& title) {
    streams.row({title, format_bytes_fixed(holding.reserved()), format_bytes_fixed(holding.live),
                 holding.pending > 0 ? format_bytes_fixed(holding.pending) : "", format_bytes_fixed(holding.free),
                 std::to_string(holding.segments)});
  };
  for (const Holding& stream : moment.streams) add(stream, stream.name + " stream");
  if (moment.pools.size() > 1)
    for (const Holding& pool : moment.pools) add(pool, pool.name + " pool");
  streams.print(out);
}

std::string held_for(const HeldBlock& block) {
  if (!block.freed) return "";
  return block.back ? format_time(*block.back - *block.freed) : "to the end";
}

void print_pending(std::ostream& out, const ExplainReport& report) {
  const Explanation& e = report.explanation;
  const Moment& moment = e.pending_peak;
  if (moment.pending.empty()) return;
  out << fmt::format("\nfreed but not back, at the most ({}, {} blocks, {}); times from that begin\n",
                     format_bytes(e.pending_free_peak), moment.pending.size(), where(report, moment));
  Table table({{"block", Table::Align::right},
               {"size", Table::Align::right},
               {"category"},
               {"unit"},
               {"step", Table::Align::right},
               {"freed", Table::Align::right},
               {"waits for"},
               {"behind"},
               {"held for", Table::Align::right}});
  for (std::size_t i = 0; i < moment.pending.size() && i < kRows; ++i) {
    const HeldBlock& block = moment.pending[i];
    table.row({block.block.valid() ? std::to_string(block.block.value) : "", format_bytes_fixed(block.size),
               std::string(category_name(block.category)), unit_name(report.run, block.unit),
               std::to_string(block.step), block.freed ? format_time(*block.freed - e.start) : "",
               block.waits_for_name.empty() ? "an event" : block.waits_for_name + " stream", block.behind,
               held_for(block)});
  }
  if (moment.pending.size() > kRows) table.row({"", fmt::format("… {} more", moment.pending.size() - kRows)});
  table.print(out);
}

void print_steps(std::ostream& out, const Explanation& e) {
  const auto right = Table::Align::right;
  const auto print = [&](const std::vector<PeriodParts>& periods, const char* title, bool phases) {
    if (periods.size() < 2) return;
    out << '\n';
    Table table({{title}, {"allocated", right}, {"active", right}, {"reserved", right}, {"pending free", right}});
    const std::size_t first = periods.size() > 2 * kRows ? periods.size() - 2 * kRows : 0;
    if (first > 0) table.row({fmt::format("… {} before", first)});
    for (std::size_t i = first; i < periods.size(); ++i) {
      const PeriodParts& period = periods[i];
      table.row({phases ? (e.step ? phase_title(period.phase) : fmt::format("{} {}", period.step, period.phase))
                        : std::to_string(period.step),
                 format_bytes_fixed(period.peaks.allocated), format_bytes_fixed(period.peaks.active),
                 format_bytes_fixed(period.peaks.reserved), format_bytes_fixed(period.pending_free_peak)});
    }
    table.print(out);
  };
  print(e.steps, "peaks of step", false);
  print(e.phases, "peaks of phase", true);
}

void print_causes(std::ostream& out, const Explanation& e) {
  out << "\ncauses\n";
  if (e.causes.empty()) out << "  none found: nothing passes the thresholds of docs/explain.md\n";
  for (const Cause& cause : e.causes) {
    out << "  " << format_bytes(cause.bytes) << "  " << in_line(cause.text) << '\n';
    if (cause.held_mean && cause.held_longest)
      out << fmt::format("    held for {} on average, {} at the longest\n", format_time(*cause.held_mean),
                         format_time(*cause.held_longest));
    out << "    " << in_line(cause.advice) << '\n';
  }
}

void print_failures(std::ostream& out, const ExplainReport& report) {
  const Explanation& e = report.explanation;
  const BlockNames names(report.run);
  for (const FailedRequest& failed : e.failures) {
    out << fmt::format("\nout of memory: a request of {} ({} in the {} pool), with {} reserved and {} allocated\n",
                       format_bytes(failed.size), exact_bytes(failed.size), failed.small_pool ? "small" : "large",
                       format_bytes(failed.parts.reserved()), format_bytes(failed.parts.allocated()));
    const StackId stack = stack_of(report.run, failed);
    const std::string op = names.op_of(stack), frame = names.whole_frame(stack);
    if (!op.empty() || !frame.empty())
      out << fmt::format("  asked for by {}{}{}\n", in_line(op), op.empty() || frame.empty() ? "" : " at ", frame);
    for (const std::string& why : failed.why) out << "  why: " << in_line(why) << '\n';
    for (const std::string& remedy : failed.remedies)
      out << "  room for this request alone: " << in_line(remedy) << '\n';
  }
}

void print_remedies(std::ostream& out, const ExplainReport& report) {
  out << "\nremedies\n";
  if (!report.remedies) {
    out << "  not simulated: " << in_line(report.no_remedies) << '\n';
    return;
  }
  const sim::Remedies& all = *report.remedies;
  Table table({{"setting"},
               {"reserved", Table::Align::right},
               {"saves", Table::Align::right},
               {"allocated", Table::Align::right},
               {"step", Table::Align::right},
               {""}});
  const auto row = [&](const std::string& setting, const MemoryPeaks& peaks, const std::string& saves, bool has_time,
                       double ms, const std::string& marks) {
    table.row({setting, format_bytes_fixed(peaks.reserved), saves, format_bytes_fixed(peaks.allocated),
               has_time ? milliseconds(ms) : "", marks});
  };
  row(as_it_is(report.run), all.before, "", all.has_time, all.step_ms,
      all.out_of_memory           ? "until it runs out of memory"
      : all.own_not_valid.empty() ? ""
                                  : "not valid");
  for (const sim::Remedy& remedy : all.useful)
    row(remedy.setting, remedy.peaks,
        remedy.saving > 0 && !all.out_of_memory
            ? format_bytes_fixed(printed_difference(all.before.reserved, remedy.peaks.reserved))
            : "",
        remedy.has_time, remedy.step_ms,
        remedy_marks(remedy) + (all.has_time && !remedy.has_time && !remedy.valid ? ", time not known" : ""));
  table.print(out);
  out << fmt::format("  simulated: {} changes; {} save nothing, {} cannot be or do not fit{}\n", all.tried, all.useless,
                     all.impossible.size(),
                     all.larger == 0 ? "" : fmt::format(", {} fit and change more than one of these", all.larger));
  if (!report.machine_note.empty()) out << "  " << report.machine_note << '\n';
  std::vector<std::pair<std::string, std::size_t>> reasons;  // why remedies are not valid, and how many are for that
  for (const sim::Remedy& remedy : all.useful)
    for (const std::string& why : remedy.not_valid) {
      const auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == why; });
      if (known == reasons.end())
        reasons.emplace_back(why, 1);
      else
        ++known->second;
    }
  for (const std::string& why : all.own_not_valid) {
    const auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == why; });
    const std::size_t count = known == reasons.end() ? 0 : known->second;
    out << fmt::format("  not valid, as it is and {} of them: {}\n", count, why);
    if (known != reasons.end()) reasons.erase(known);
  }
  for (const auto& [why, count] : reasons) out << fmt::format("  not valid, {} of them: {}\n", count, why);
  for (const sim::Remedy& remedy : all.useful)
    out << "\n  " << remedy.setting << ": " << remedy.reason << '\n' << indented(remedy.pytorch);
}

}  // namespace

PrintedParts printed_memory_parts(const MemoryParts& parts) {
  const std::vector<Bytes> all =
      add_up({parts.active(), parts.hard, parts.soft, parts.stream, parts.private_pool}, parts.reserved());
  const std::vector<Bytes> active = add_up({parts.allocated(), parts.pending_free}, all[0]);
  const std::vector<Bytes> allocated = add_up({parts.requested, parts.rounding}, active[0]);
  return {{allocated[0], allocated[1], active[1], all[1], all[2], all[3], all[4]}, active[0], all[0]};
}

std::vector<NamedPart> named_parts(const MemoryParts& parts) {
  return {{"requested", "what the program asked for, in live blocks", parts.requested},
          {"rounding", "inside live blocks, beyond the request", parts.rounding},
          {"pending_free", "freed by the program, waiting for a stream's event", parts.pending_free},
          {"hard_fragmentation", "free, in segments with blocks in use", parts.hard},
          {"soft_fragmentation", "whole free segments of the stream that asks", parts.soft},
          {"stream_fragmentation", "whole free segments of other streams", parts.stream},
          {"private_pools", "in private pools, not allocated", parts.private_pool}};
}

StackId stack_of(const Run& run, const FailedRequest& failed) {
  const bool recorded =
      failed.event < run.allocator.size() && run.allocator[failed.event].action == AllocatorAction::oom;
  return recorded ? run.allocator[failed.event].stack : StackId{};
}

const PeriodParts* larger_step(const Explanation& explanation) {
  if (!explanation.step) return nullptr;
  const PeriodParts* largest = nullptr;
  const PeriodParts* own = nullptr;
  const auto size = [](const PeriodParts& period) { return std::pair(period.peaks.reserved, period.peaks.allocated); };
  for (const PeriodParts& period : explanation.steps) {
    if (largest == nullptr || size(period) > size(*largest)) largest = &period;
    if (period.step == *explanation.step) own = &period;
  }
  if (largest == nullptr || own == nullptr || largest == own) return nullptr;
  const auto more = [](Bytes bytes, Bytes than) { return bytes > than + than / 100; };
  return more(largest->peaks.reserved, own->peaks.reserved) || more(largest->peaks.allocated, own->peaks.allocated)
             ? largest
             : nullptr;
}

std::string graph_step(const Run& run, std::int32_t step) {
  if (!run.settings.cuda_graph || graph_pool_bytes(run) == 0) return {};
  switch (graph_phase(run.settings, false, step)) {
    case GraphPhase::eager:
      return "before the CUDA graph's warm-up";
    case GraphPhase::warm_up:
      return "of the CUDA graph's warm-up";
    case GraphPhase::capture:
      return "the CUDA graph's capture, which begins with what the warm-up left reserved";
    case GraphPhase::replay:
      return "a replay of the CUDA graph";
  }
  return {};
}

std::string explained_step(const Run& run, const Explanation& explanation) {
  if (!explanation.step) return "the whole record";
  const Recording recording = run.info.kind == RunKind::imported ? Recording::snapshot : Recording::run;
  const std::string title = step_title(run, recording, *explanation.step);
  if (const StepShapes shapes(run); shapes.differ())
    return fmt::format("{} ({}of {})", title, larger_step(explanation) == nullptr ? "which reserves most; " : "",
                       shapes.words_of(recording, *explanation.step));
  const std::string of_graph = graph_step(run, *explanation.step);
  return of_graph.empty() ? title : fmt::format("{} ({})", title, of_graph);
}

void print_explain(std::ostream& out, const ExplainReport& report) {
  const Explanation& e = report.explanation;
  for (const std::string& line : plan_end(report.run)) out << in_line(line) << '\n';
  for (const std::string& line : forecast_lines(report.run)) out << in_line(line) << '\n';
  out << in_line(fit_answer(report)) << '\n';
  for (const std::string& line : not_in_run_lines(report.run)) out << in_line(line) << '\n';
  out << in_line(fmt::format("{}, {}: {}", report.run.info.name, explained_step(report.run, e), headline(report)))
      << '\n';
  if (const std::string experts = plan_text(report.run, "experts", "sentence"); !experts.empty())
    out << in_line(experts) << ".\n";
  if (const sim::Remedy* best = best_remedy(report)) out << indented(best->pytorch);
  if (const PeriodParts* larger = larger_step(e)) {
    const std::string of_graph = graph_step(report.run, larger->step);
    out << fmt::format("Step {0}{3} is larger: it allocates {1}, and {2} are reserved (--step {0}).\n", larger->step,
                       format_bytes(larger->peaks.allocated), format_bytes(larger->peaks.reserved),
                       of_graph.empty() ? "" : fmt::format(" ({})", of_graph));
  }
  if (report.stragglers) out << "Ranks: " << in_line(straggler_sentences(*report.stragglers).front()) << ".\n";
  print_failures(out, report);
  const Moment& shown = e.asked ? *e.asked : e.reserved_peak;
  print_gap(out, report, shown, e.asked ? "reserved memory at the time asked for" : "reserved memory at its peak");
  print_causes(out, e);
  print_pending(out, report);
  print_largest(out, report, shown);
  print_holders(out, report, shown);
  print_steps(out, e);
  if (report.stragglers) print_stragglers(out, *report.stragglers);
  print_remedies(out, report);
  if (!report.fingerprint.empty()) out << "\nfingerprint " << report.fingerprint << '\n';
}

}  // namespace foreshard::cli
