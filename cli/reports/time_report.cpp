#include "cli/reports/time_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/explain_time/time_words.hpp"
#include "core/straggler/straggler_text.hpp"

namespace foreshard::cli {
namespace {

constexpr std::size_t kCauses = 8;          // rows of the short report
constexpr std::size_t kLongest = 10;        // exposed intervals in the long one
constexpr Nanoseconds kKernelGaps{10'000};  // as short they are of no interest one by one
constexpr std::size_t kRemedies = 3;        // of the short report
constexpr std::size_t kExamples = 2;        // of settings that do not help, in the short report
constexpr std::size_t kPathRows = 60;
constexpr double kAMean = 0.001;           // of the step: more than rounding
constexpr double kProfilerSlowing = 0.05;  // of the measured step: more is said first
constexpr double kWorthANote = 0.02;       // of the step
constexpr double kWorthARow = 0.0005;      // of the step, in the short report

using Align = Table::Align;

std::string ms(Nanoseconds time) {
  return fmt::format("{:.2f}", time.ms());
}

/// Microseconds where milliseconds would show nothing.
std::string time_words(Nanoseconds time) {
  constexpr std::int64_t kSmall = 10'000;
  return time.count < kSmall ? fmt::format("{:.1f} us", time.us()) : fmt::format("{:.2f} ms", time.ms());
}

std::string share(Nanoseconds time, Nanoseconds whole) {
  return whole.count == 0 ? "" : fmt::format("{:.1f} %", 100 * time.ms() / whole.ms());
}

std::string phase_name(const std::string& phase) {
  return phase.empty() ? "between phases" : phase;
}

void print_causes(std::ostream& out, const TimeReport& report, bool detail) {
  const TimeExplanation& e = report.time;
  const CauseTotals totals = cause_totals(e);
  std::vector<IdleCause> causes;
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (totals[static_cast<std::size_t>(cause)].parts > 0) causes.push_back(cause);
  std::stable_sort(causes.begin(), causes.end(), [&](IdleCause a, IdleCause b) {
    return totals[static_cast<std::size_t>(a)].time > totals[static_cast<std::size_t>(b)].time;
  });
  out << "\nwhere the step's time goes on the compute stream\n";
  Table table({{"cause"}, {"ms", Align::right}, {"of step", Align::right}, {"times", Align::right}, {"longest"}});
  table.row({"compute", ms(e.compute), share(e.compute, e.length()), "",
             e.kernel_contention.count > 0
                 ? fmt::format("of it {} ms slower beside collectives", ms(e.kernel_contention))
                 : ""});
  CauseTotal others;
  for (std::size_t i = 0; i < causes.size(); ++i) {
    const CauseTotal& total = totals[static_cast<std::size_t>(causes[i])];
    if (!detail && (i >= kCauses || total.time < e.length().scaled(kWorthARow))) {
      others.time += total.time;
      others.parts += total.parts;
      continue;
    }
    const IdlePart& part = e.parts[total.longest];
    table.row({std::string(title(causes[i])), ms(total.time), share(total.time, e.length()),
               std::to_string(total.parts),
               fmt::format("{}, {}", time_words(part.length()),
                           causes[i] != IdleCause::launch && causes[i] != IdleCause::kernel_gap
                               ? op_words(report.run, part.op)
                               : "before " + op_words(report.run, part.op))});
  }
  if (others.parts > 0)
    table.row({"other causes", ms(others.time), share(others.time, e.length()), std::to_string(others.parts), ""});
  table.row({"step", ms(e.length()), "100.0 %", "", ""});
  table.print(out);
  if (report.reported && report.reported->source == "measured")
    out << fmt::format("  measured without a profiler: {:.2f} ms ({:+.2f} ms, not in the timeline and in no cause)\n",
                       report.reported->ms, report.reported->ms - e.length().ms());
  else if (report.reported && std::abs(report.reported->ms - e.length().ms()) > kAMean * e.length().ms())
    out << fmt::format("  the run's step time, {:.2f} ms, is the mean of several steps that differ\n",
                       report.reported->ms);
}

void print_phases(std::ostream& out, const TimeReport& report) {
  out << "\nby phase, ms\n";
  const auto right = Align::right;
  Table table({{"phase"},
               {"compute", right},
               {"exposed communication", right},
               {"host", right},
               {"other", right},
               {"sum", right}});
  for (const PhaseTime& p : phase_times(report.run, report.time))
    table.row({phase_name(p.phase), ms(p.compute), ms(p.exposed_communication), ms(p.host), ms(p.other), ms(p.sum())});
  table.print(out);
}

void print_longest(std::ostream& out, const TimeReport& report) {
  const TimeExplanation& e = report.time;
  std::vector<std::size_t> order(e.gaps.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return e.gaps[a].length() > e.gaps[b].length(); });
  if (order.size() > kLongest) order.resize(kLongest);
  out << "\nthe longest exposed intervals\n";
  for (const std::size_t g : order) {
    const IdleGap& gap = e.gaps[g];
    if (gap.length() <= kKernelGaps) break;
    out << fmt::format("  {} ms from {} ms, {}, before {}\n", ms(gap.length()), ms(gap.start - e.begin),
                       gap.phase.empty() ? "between phases" : "in " + gap.phase, next_words(report.run, gap));
    for (std::size_t i = gap.first_part; i < gap.first_part + gap.parts; ++i)
      if (const IdlePart& part = e.parts[i]; 20 * part.length().count >= gap.length().count)
        out << fmt::format("    {} ms {}: {}\n", ms(part.length()), title(part.cause), chain_words(report.run, part));
  }
}

/// The rows of one pattern stand in a bracket.
std::string_view bracket(std::size_t index, std::size_t rows) {
  if (rows == 1) return "";
  return index == 0 ? "┌ " : index + 1 == rows ? "└ " : "│ ";
}

void print_path(std::ostream& out, const TimeReport& report) {
  out << "\ncritical path (compute, with waits too short for a row of their own, and waits)\n";
  Table table(
      {{"at, ms", Align::right}, {"ms", Align::right}, {"each", Align::right}, {"times", Align::right}, {"what"}});
  std::size_t rows = 0;
  for (const PathRow& row : report.critical_path)
    for (std::size_t i = 0; i < row.pattern.size(); ++i) {
      if (++rows > kPathRows) continue;
      const PathStretch& stretch = row.pattern[i];
      const Nanoseconds each{stretch.time.count / static_cast<std::int64_t>(row.count)};
      table.row({ms(stretch.start - report.time.begin), ms(stretch.time), row.count > 1 ? ms(each) : "",
                 row.count > 1 && i == 0 ? std::to_string(row.count) : "",
                 fmt::format("{}{}{}", bracket(i, row.pattern.size()), stretch.computes ? "" : "  ",
                             stretch_words(report.run, report.time, stretch, row.count))});
    }
  table.print(out);
  if (rows > kPathRows) out << fmt::format("  and {} more (--json has all)\n", rows - kPathRows);
}

/// Phases and units in which the host was late for longest.
void print_host(std::ostream& out, const TimeReport& report) {
  const TimeExplanation& e = report.time;
  struct Late {
    std::string where;
    Nanoseconds time;
    std::size_t parts = 0;
  };
  std::vector<Late> late;
  for (const IdlePart& part : e.parts) {
    if (!is_host(part.cause)) continue;
    const std::string& range = report.run.labels.text(part.host);
    const std::string where =
        fmt::format("{}{}{}", phase_name(e.gaps[part.gap].phase), part.unit.empty() ? "" : " of " + part.unit,
                    range.empty() ? "" : ", in " + range);
    const auto known = std::find_if(late.begin(), late.end(), [&](const Late& l) { return l.where == where; });
    Late& entry = known != late.end() ? *known : late.emplace_back(Late{where, {}, 0});
    entry.time += part.length();
    ++entry.parts;
  }
  if (late.empty()) return;
  std::stable_sort(late.begin(), late.end(), [](const Late& a, const Late& b) { return a.time > b.time; });
  out << fmt::format("\nthe host was late in {} places, longest\n", late.size());
  if (late.size() > kLongest) late.resize(kLongest);
  Table table({{"ms", Align::right}, {"times", Align::right}, {"where"}});
  for (const Late& entry : late) table.row({ms(entry.time), std::to_string(entry.parts), entry.where});
  table.print(out);
}

/// `all`: imports and the lines that are left out, too.
std::string code_lines(const std::string& text, bool all) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (all || !(line.starts_with("leave out:") || line.starts_with("from "))) out += "    " + line + '\n';
    at = end + 1;
  }
  return out;
}

/// "+0.02 ms" of what it costs; never "-0.00".
std::string cost(double saved_ms) {
  const double shown = std::round(-saved_ms * 100) / 100;
  return fmt::format("{:+.2f} ms", shown == 0 ? 0.0 : shown);
}

void list_settings(std::ostream& out, const char* what, const std::vector<sim::TimeRemedy>& remedies, bool detail) {
  if (remedies.empty()) return;
  out << fmt::format("  {}: {}", what, remedies.size());
  for (std::size_t i = 0; i < remedies.size() && (detail || i < kExamples); ++i)
    out << (detail   ? "\n    "
            : i == 0 ? ": "
                     : ", ")
        << fmt::format("{} ({})", remedies[i].setting, cost(remedies[i].saved_ms));
  out << (detail || remedies.size() <= kExamples ? "\n" : ", …\n");
}

/// Why no change of settings helps.
std::string why_none(const TimeReport& report) {
  const CauseTotals totals = cause_totals(report.time);
  IdleCause most = IdleCause::issuing;
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (totals[static_cast<std::size_t>(cause)].time > totals[static_cast<std::size_t>(most)].time) most = cause;
  const CauseTotal& total = totals[static_cast<std::size_t>(most)];
  if (total.parts == 0) return "the GPU always computes";
  return fmt::format("most idle time is {} ({} ms: {})", title(most), ms(total.time),
                     chain_words(report.run, report.time.parts[total.longest]));
}

/// Of every remedy; in the short report of the first single change, without the lines that go.
void print_code(std::ostream& out, const sim::TimeRemedies& all, bool detail) {
  for (const sim::TimeRemedy& remedy : all.faster) {
    if (!detail && remedy.changes > 1) continue;
    out << fmt::format("  {}: {}\n", remedy.setting, remedy.reason) << code_lines(remedy.pytorch, detail);
    if (!detail) return;
  }
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
  if (!all.faster.empty()) {
    const auto right = Align::right;
    Table table({{"setting"}, {"step", right}, {"saves", right}, {"exposed", right}, {"reserved", right}, {"", right}});
    table.row({"as it is", milliseconds(all.step_ms), "", milliseconds(all.exposed_communication_ms),
               format_bytes(all.before.reserved), ""});
    for (std::size_t i = 0; i < all.faster.size() && (detail || i < kRemedies); ++i) {
      const sim::TimeRemedy& r = all.faster[i];
      table.row({r.setting, milliseconds(r.step_ms), milliseconds(r.saved_ms), milliseconds(r.exposed_communication_ms),
                 format_bytes(r.peaks.reserved), format_bytes_difference(r.more_reserved)});
    }
    table.print(out);
  }
  if (!detail && all.faster.size() > kRemedies)
    out << fmt::format("  and {} more (--detail)\n", all.faster.size() - kRemedies);
  list_settings(out, "no difference", all.no_difference, detail);
  list_settings(out, "slower", all.slower, detail);
  list_settings(out, "not valid", all.not_valid, detail);
  if (detail) {
    for (const sim::TimeRemedy& remedy : all.not_valid)
      for (const std::string& why : remedy.not_valid) out << fmt::format("    {}: {}\n", remedy.setting, why);
    for (const std::string& why : all.impossible) out << "  cannot be: " << why << '\n';
  }
  for (const std::string& what : not_simulated(report)) out << "  not simulated: " << what << '\n';
  if (!report.machine_note.empty()) out << "  " << report.machine_note << '\n';
  print_code(out, all, detail);
}

/// Where the profiled step is not the step that the program has without a profiler.
std::string profiler_words(const TimeReport& report) {
  if (!report.reported || report.reported->source != "measured") return {};
  const double slower = report.time.length().ms() - report.reported->ms;
  if (slower < kProfilerSlowing * report.reported->ms) return {};
  return fmt::format(
      "Without the profiler a step takes {:.2f} ms: up to {:.2f} ms of what follows are its slowing of this host and "
      "the "
      "other ranks'.",
      report.reported->ms, slower);
}

}  // namespace

std::vector<std::string> not_simulated(const TimeReport& report) {
  const TimeExplanation& e = report.time;
  Nanoseconds root, host, ranks, other_kind;
  for (const IdlePart& part : e.parts) {
    if (is_host(part.cause)) host += part.length();
    if (part.cause == IdleCause::late_rank) ranks += part.length();
    if (part.cause == IdleCause::previous_collective &&
        report.run.device_ops[part.op].collective != report.run.device_ops[part.behind].collective)
      other_kind += part.length();
    const bool unhideable = part.cause == IdleCause::first_gather || part.cause == IdleCause::last_reduction;
    if (unhideable && part.unit == "root") root += part.length();
  }
  std::vector<std::string> out;
  if (root > e.length().scaled(kWorthANote))
    out.push_back(
        fmt::format("embedding and head as units of their own (fully_shard on each before the root): the root's "
                    "collectives, {} ms of them exposed, hold both",
                    ms(root)));
  if (host > e.length().scaled(kWorthANote))
    out.emplace_back("CUDA graphs and torch.compile, which launch less: record the run with them");
  if (other_kind > e.length().scaled(kWorthANote))
    out.push_back(fmt::format(
        "a communicator of their own for reduce-scatters: {} ms wait behind a collective of the other kind; "
        "beside each other both would share the links",
        ms(other_kind)));
  if (ranks > e.length().scaled(kWorthANote))
    out.push_back(fmt::format("other ranks, which this one waits for {} ms: no setting of FSDP2 makes them faster{}",
                              ms(ranks), report.run.ranks.size() > 1 ? "" : "; record them all to see which is late"));
  return out;
}

void print_time(std::ostream& out, const TimeReport& report, bool detail) {
  const TimeExplanation& e = report.time;
  out << fmt::format("{}, step {}: {}.\n", report.run.info.name, e.step, time_headline(report.run, e));
  if (const std::string slowing = profiler_words(report); !slowing.empty()) out << slowing << '\n';
  if (report.stragglers) out << "Ranks: " << straggler_sentences(*report.stragglers).front() << ".\n";
  print_causes(out, report, detail);
  if (detail) {
    print_phases(out, report);
    print_longest(out, report);
    print_path(out, report);
    print_host(out, report);
  }
  print_remedies(out, report, detail);
  if (!report.fingerprint.empty()) out << "\nfingerprint " << report.fingerprint << '\n';
}

}  // namespace foreshard::cli
