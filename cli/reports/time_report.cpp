#include "cli/reports/time_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/reports/as_it_is.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/reports/run_summary.hpp"
#include "cli/reports/straggler_report.hpp"
#include "cli/reports/time_answer.hpp"
#include "cli/reports/time_tables.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/add_up.hpp"
#include "core/base/units.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/explain_time/time_words.hpp"
#include "core/run/phase_words.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/step_shapes.hpp"
#include "core/straggler/straggler_text.hpp"

namespace foreshard::cli {
namespace {

constexpr std::size_t kRemedies = 3;  // of the short report
constexpr std::size_t kExamples = 2;  // of settings that do not help, in the short report
constexpr double kAMean = 0.001;      // of the step: more than rounding
constexpr double kWorthANote = 0.02;  // of the step

using Align = Table::Align;

std::string two_digits(Nanoseconds time) {
  return fmt::format("{:.2f}", time.ms());
}

/// Where the step of the timeline is not the one that is reported.
void print_reported(std::ostream& out, const TimeReport& report) {
  const TimeExplanation& e = report.time;
  const bool differ = StepShapes(report.run).differ();
  const bool measured = report.reported && report.reported->source == "measured";
  if (const auto ms = differ ? report.measured_of_size : measured ? std::optional(report.reported->ms) : std::nullopt)
    out << fmt::format("  measured without a profiler{}: {:.2f} ms ({:+.2f} ms, not in the timeline and in no cause)\n",
                       differ ? ", in the mean of the steps of its size" : "", *ms,
                       printed_difference(*ms, e.length().ms(), 2));
  if (measured && !differ) return;
  if (report.reported && std::abs(report.reported->ms - e.length().ms()) > kAMean * e.length().ms())
    out << fmt::format("  the run's step time, {:.2f} ms, is the mean of several steps that differ, of {}\n",
                       report.reported->ms, shape_words(StepShapes(report.run).of_mean()));
}

/// `all`: the lines that are left out, too.
std::string code_lines(const std::string& text, bool all) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (all || !line.starts_with("# leave out:")) out += "    " + line + '\n';
    at = end + 1;
  }
  return out;
}

/// "saves 0.06 ms", "+2.10 ms" of a longer step, "±0 ms".
std::string saved_words(double saved_ms) {
  const double shown = std::round(saved_ms * 100) / 100;
  if (shown == 0) return "±0 ms";
  return shown > 0 ? fmt::format("saves {:.2f} ms", shown) : fmt::format("{:+.2f} ms", -shown);
}

void list_settings(std::ostream& out, const char* what, const std::vector<sim::TimeRemedy>& remedies, bool detail) {
  if (remedies.empty()) return;
  out << fmt::format("  {}: {}", what, remedies.size());
  for (std::size_t i = 0; i < remedies.size() && (detail || i < kExamples); ++i)
    out << (detail   ? "\n    "
            : i == 0 ? ": "
                     : ", ")
        << fmt::format("{} ({})", remedies[i].setting, saved_words(remedies[i].saved_ms));
  out << (detail || remedies.size() <= kExamples ? "\n" : ", …\n");
}

/// Why no change of settings helps.
std::string why_none(const TimeReport& report) {
  const Run& run = diagnosed_run(report);
  const TimeExplanation& time = diagnosed_time(report);
  const CauseTotals totals = cause_totals(time);
  IdleCause most = IdleCause::issuing;
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (totals[static_cast<std::size_t>(cause)].time > totals[static_cast<std::size_t>(most)].time) most = cause;
  const CauseTotal& total = totals[static_cast<std::size_t>(most)];
  if (total.parts == 0) return "the GPU always computes";
  const std::string exposed =
      total.exposed.count == 0 ? "" : fmt::format(", {} ms of it exposed communication", two_digits(total.exposed));
  return fmt::format("most idle time is {} ({} ms{}: {})", title(most), two_digits(total.time), exposed,
                     chain_words(run, time.parts[total.longest]));
}

/// Of every remedy; in the short report of the first single change, without the lines that go.
void print_code(std::ostream& out, const TimeReport& report, bool detail) {
  for (const sim::TimeRemedy& remedy : report.remedies->faster) {
    if (!detail && remedy.changes > 1) continue;
    out << fmt::format("  {}: {}\n", remedy.setting, remedy.reason) << code_lines(remedy.pytorch, detail);
    if (const std::string command = plan_command(report, remedy); !command.empty()) out << "    " << command << '\n';
    if (!detail) return;
  }
}

void print_faster(std::ostream& out, const TimeReport& report, bool detail) {
  const sim::TimeRemedies& all = *report.remedies;
  const auto right = Align::right;
  Table table({{"setting"},
               {"step", right},
               {"saves", right},
               {"saves ±", right},
               {"exposed", right},
               {"reserved", right},
               {"", right}});
  table.row({as_it_is(report.run), milliseconds(all.step_ms), "", "", milliseconds(all.exposed_communication_ms),
             format_bytes(all.before.reserved), ""});
  for (std::size_t i = 0; i < all.faster.size() && (detail || i < kRemedies); ++i) {
    const sim::TimeRemedy& r = all.faster[i];
    table.row({r.setting, milliseconds(r.step_ms), milliseconds(printed_difference(all.step_ms, r.step_ms, 2)),
               fmt::format("{:.2f}", r.saved_within), milliseconds(r.exposed_communication_ms),
               format_bytes(r.peaks.reserved), format_bytes_difference(r.more_reserved)});
  }
  if (!all.not_split.empty()) table.row({"fully_shard on embedding and head", "unknown", "", "", "", "", ""});
  table.print(out);
}

/// Of a recording that a late rank held up: why the plan without that is shorter by another time than the waits for it;
/// empty where it is by as much.
std::string keeps_up_words(const TimeReport& report) {
  const auto& measured = report.run.measured;
  if (!measured || measured->late_rank < 0 || !report.reported || report.reported->source != "measured") return {};
  const double saved = printed_difference(report.reported->ms, report.remedies->step_ms, 2);
  const Nanoseconds waited = cause_totals(report.time)[static_cast<std::size_t>(IdleCause::late_rank)].time;
  if (waited.count == 0 || std::abs(saved - waited.ms()) < kWorthANote * report.reported->ms) return {};
  const bool several = late_with_more(measured, rank_shapes(report.run), report.run.settings).size() > 1;
  const std::string_view them = several ? "them" : "it";
  const std::string line =
      fmt::format("the {:.2f} ms that were measured are {:.2f} ms more than {}, and {} ms of a step are waits for {}: ",
                  report.reported->ms, saved, as_it_is(report.run), two_digits(waited), them);
  if (saved < waited.ms())
    return line + fmt::format(
                      "without {} other collectives, which end while this rank waits, are waited for themselves", them);
  return line + fmt::format(
                    "while collectives stand until {}, this rank computes beside them, and more slowly (in "
                    "all, kernels lose {} ms beside collectives); the rest is what the plan and the profiled "
                    "step differ by",
                    several ? "they come" : "it comes", two_digits(report.time.kernel_contention));
}

void print_remedies(std::ostream& out, const TimeReport& report, bool detail) {
  if (!report.remedies) {
    out << fmt::format("\nnothing was simulated: {}\n", report.no_remedies);
    return;
  }
  const sim::TimeRemedies& all = *report.remedies;
  if (all.faster.empty())
    out << fmt::format("\nnone of {} changes makes it faster by {:.1f} % or more (simulated on {}): {}\n", all.tried,
                       all.same * 100, report.machine, why_none(report));
  else
    out << fmt::format("\nwhat makes it faster (simulated on {}; less than {:.1f} % is no difference)\n",
                       report.machine, all.same * 100);
  for (const std::string& why : all.own_not_valid) out << "  not valid, as it is and with any change: " << why << '\n';
  if (!all.faster.empty()) print_faster(out, report, detail);
  if (const std::string words = keeps_up_words(report); !words.empty()) out << "  " << words << '\n';
  if (!detail && all.faster.size() > kRemedies)
    out << fmt::format("  and {} more (--detail)\n", all.faster.size() - kRemedies);
  list_settings(out, "no difference", all.no_difference, detail);
  list_settings(out, "slower", all.slower, detail);
  list_settings(out, "not valid", all.not_valid, detail);
  for (const std::string& why : all.not_timed) out << "  not valid, time not known: " << why << '\n';
  if (detail) {
    for (const sim::TimeRemedy& remedy : all.not_valid)
      for (const std::string& why : remedy.not_valid) out << fmt::format("    {}: {}\n", remedy.setting, why);
    for (const std::string& why : all.impossible) out << "  cannot be: " << why << '\n';
  }
  if (!detail && !all.impossible.empty()) out << fmt::format("  cannot be: {} (--detail)\n", all.impossible.size());
  for (const std::string& what : not_simulated(report)) out << "  not simulated: " << what << '\n';
  if (!report.machine_note.empty()) out << "  " << report.machine_note << '\n';
  print_code(out, report, detail);
}

}  // namespace

std::string plan_command(const TimeReport& report, const sim::TimeRemedy& remedy) {
  if (!report.source) return {};
  return plan_command(report.path, report.source->options, report.source->settings, remedy.settings);
}

std::vector<std::string> not_simulated(const TimeReport& report) {
  const Run& run = diagnosed_run(report);
  const TimeExplanation& e = diagnosed_time(report);
  const Nanoseconds cpu_optimizer = cpu_optimizer_time(run, e);
  Nanoseconds root, host, ranks;
  for (const IdlePart& part : e.parts) {
    const bool on_cpu = run.settings.offload && part.phase == kOptimizerPhase;
    if (is_host(part.cause) && !on_cpu) host += part.length();
    if (part.cause == IdleCause::late_rank) ranks += part.length();
    const bool unhideable = part.cause == IdleCause::first_gather || part.cause == IdleCause::last_reduction;
    if (unhideable && part.unit == "root") root += part.length();
  }
  const Nanoseconds least = e.length().scaled(kWorthANote);
  std::vector<std::string> out;
  const bool split = report.remedies && report.remedies->not_split.empty();
  if (root > least && !split)
    out.push_back(
        fmt::format("embedding and head as units of their own (fully_shard on each before the root): the root's "
                    "collectives, {} ms of them exposed, hold both{}",
                    two_digits(root), report.remedies ? "; " + report.remedies->not_split : ""));
  if (cpu_optimizer > least)
    out.push_back(
        fmt::format("a faster optimizer on the CPU, which the GPU waits for {} ms: more threads a rank "
                    "(OMP_NUM_THREADS; torchrun sets 1), or Adam(fused=True), which runs on the CPU as well",
                    two_digits(cpu_optimizer)));
  if (host > least)
    out.emplace_back("torch.compile, which launches less: record the run with it, or plan a model with --compile");
  if (run.settings.float8 != Float8::none && !run.settings.float8_all_gather)
    out.emplace_back(
        "--float8-all-gather, which gathers half the bytes: it changes the program's kernels; plan the model with it");
  if (ranks > least)
    out.push_back(fmt::format("other ranks, which this one waits for {} ms: no setting of FSDP2 makes them faster{}",
                              two_digits(ranks), run.ranks.size() > 1 ? "" : "; record them all to see which is late"));
  return out;
}

void print_time(std::ostream& out, const TimeReport& report, bool detail) {
  for (const std::string& line : time_answer(report)) out << in_line(line) << ".\n";
  // A plan whose steps differ has said it of their mean: of one of them it would be another number.
  const bool said = StepShapes(report.run).differ() && !plan_text(report.run, "ranks", "sentence").empty();
  if (report.stragglers) {
    if (!said) out << "Ranks: " << in_line(straggler_sentences(*report.stragglers).front()) << ".\n";
  } else if (report.run.ranks.size() > 1) {
    out << "Ranks: not held against one another in this step, whose begin is not known of all of them.\n";
  }
  const bool planned = report.clean && report.clean->time;
  if (planned) print_causes(out, report.clean->run, *report.clean->time, "planned step", detail);
  if (!planned || detail) {
    print_causes(out, report.run, report.time, report.clean ? "profiled step" : "step", detail);
    print_reported(out, report);
  }
  const std::string_view step = planned ? "planned step" : report.clean ? "profiled step" : "step";
  if (report.links) print_links(out, *report.links, diagnosed_time(report), step);
  if (report.roofline) print_roofline(out, *report.roofline, diagnosed_time(report), step);
  if (detail) {
    print_phases(out, report.run, report.time);
    print_longest(out, report.run, report.time);
    print_path(out, report.run, report.time, report.critical_path);
    if (report.stragglers) print_stragglers(out, *report.stragglers);
    if (report.rank_path) print_rank_path(out, *report.rank_path);
    print_host(out, report.run, report.time);
  }
  print_remedies(out, report, detail);
  if (!report.fingerprint.empty()) out << "\nfingerprint " << report.fingerprint << '\n';
}

}  // namespace foreshard::cli
