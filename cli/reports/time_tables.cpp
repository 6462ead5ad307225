#include "cli/reports/time_tables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/reports/phase_table.hpp"
#include "cli/terminal/output.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/add_up.hpp"
#include "core/base/units.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/explain_time/time_words.hpp"
#include "core/run/phase_words.hpp"

namespace foreshard::cli {
namespace {

constexpr std::size_t kCauses = 8;          // rows of the short report
constexpr std::size_t kLongest = 10;        // exposed intervals in the long one
constexpr Nanoseconds kKernelGaps{10'000};  // as short they are of no interest one by one
constexpr std::size_t kPathRows = 60;
constexpr double kWorthARow = 0.0005;  // of the step, in the short report

using Align = Table::Align;

std::string cell_ms(Nanoseconds time) {
  return fmt::format("{:.2f}", time.ms());
}

/// Microseconds where milliseconds would show nothing.
std::string time_words(Nanoseconds time) {
  constexpr std::int64_t kInMicroseconds = 10'000;
  return time.count < kInMicroseconds ? fmt::format("{:.1f} us", time.us()) : fmt::format("{:.2f} ms", time.ms());
}

/// Of a cause that takes `printed` ms in the table: a part of it is not printed as longer than that.
std::string longest_words(const Run& run, const TimeExplanation& e, const CauseTotal& total, double printed) {
  const IdlePart& part = e.parts[total.longest];
  const bool more = as_printed(part.length().ms(), 2) > printed;
  const bool before = part.cause == IdleCause::launch || part.cause == IdleCause::kernel_gap;
  return fmt::format("{}, {}{}", more ? fmt::format("{:.2f} ms", printed) : time_words(part.length()),
                     before ? "before " : "", op_words(run, part.op));
}

/// Compute as every line has it; the causes behind it so that all add up to the step.
std::vector<double> printed_causes(const std::vector<double>& times, Nanoseconds step) {
  std::vector<double> out{as_printed(times.front(), 2)};
  const std::vector<double> causes(times.begin() + 1, times.end());
  for (const double cause : add_up(causes, printed_difference(step.ms(), out.front(), 2), 2)) out.push_back(cause);
  return out;
}

}  // namespace

void print_causes(std::ostream& out, const Run& run, const TimeExplanation& e, std::string_view step, bool detail) {
  const CauseTotals totals = cause_totals(e);
  std::vector<IdleCause> causes;
  for (const IdleCause cause : kEnumValues<IdleCause>)
    if (totals[static_cast<std::size_t>(cause)].parts > 0) causes.push_back(cause);
  std::stable_sort(causes.begin(), causes.end(), [&](IdleCause a, IdleCause b) {
    return totals[static_cast<std::size_t>(a)].time > totals[static_cast<std::size_t>(b)].time;
  });
  out << fmt::format("\nwhere the {}'s time goes on the compute stream\n", step);
  Table table({{"cause"},
               {"ms", Align::right},
               {"of step", Align::right},
               {"exposed", Align::right},
               {"times", Align::right},
               {"longest"}});
  const std::string contention =
      e.kernel_contention.count > 0 ? fmt::format("of it {} ms slower beside collectives", cell_ms(e.kernel_contention))
                                    : "";
  std::vector<std::string> names{"compute"};
  std::vector<const CauseTotal*> shown{nullptr};
  std::vector<double> times{e.compute.ms()}, exposed{0};
  CauseTotal others;
  for (std::size_t i = 0; i < causes.size(); ++i) {
    const CauseTotal& total = totals[static_cast<std::size_t>(causes[i])];
    if (!detail && (i >= kCauses || total.time < e.length().scaled(kWorthARow))) {
      others.time += total.time;
      others.exposed += total.exposed;
      others.parts += total.parts;
      continue;
    }
    names.emplace_back(title(causes[i]));
    shown.push_back(&total);
  }
  if (others.parts > 0) {
    names.emplace_back("other causes");
    shown.push_back(&others);
  }
  for (std::size_t i = 1; i < shown.size(); ++i) {
    times.push_back(shown[i]->time.ms());
    exposed.push_back(shown[i]->exposed.ms());
  }
  const std::vector<double> printed = printed_causes(times, e.length()), shares = shares_of(times, 1);
  exposed = add_up(exposed, e.exposed_communication.ms(), 2);
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string longest = i == 0 ? contention : std::string();
    if (i > 0 && shown[i] != &others) longest = longest_words(run, e, *shown[i], printed[i]);
    table.row({names[i], fmt::format("{:.2f}", printed[i]), fmt::format("{:.1f} %", shares[i]),
               exposed[i] > 0 ? fmt::format("{:.2f}", exposed[i]) : std::string(),
               i == 0 ? std::string() : std::to_string(shown[i]->parts), longest});
  }
  table.row({"step", cell_ms(e.length()), "100.0 %", cell_ms(e.exposed_communication), "", ""});
  table.print(out);
  const PhaseTime sum = total(phase_times(run, e));
  const std::vector<double> parts = printed_phase_parts(sum);
  out << fmt::format(
      "  as plan has it: compute {:.2f} + exposed communication {:.2f} + host {:.2f} + other {:.2f} = {} ms\n",
      parts[0], parts[1], parts[2], parts[3], cell_ms(sum.sum()));
  if (e.kernel_contention_unknown >= e.length().scaled(kWorthADoubt))
    out << fmt::format(
        "  {} ms of compute overlap collectives in kernels that were never seen isolated: how much of it is contention "
        "is not known\n",
        cell_ms(e.kernel_contention_unknown));
}

void print_phases(std::ostream& out, const Run& run, const TimeExplanation& e) {
  const std::vector<PhaseTime> rows = phase_times(run, e);
  print_phase_table(out, "by phase, ms", rows, total(rows));
}

void print_longest(std::ostream& out, const Run& run, const TimeExplanation& e) {
  std::vector<std::size_t> order(e.gaps.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return e.gaps[a].length() > e.gaps[b].length(); });
  if (order.size() > kLongest) order.resize(kLongest);
  out << "\nthe longest exposed intervals\n";
  for (const std::size_t g : order) {
    const IdleGap& gap = e.gaps[g];
    if (gap.length() <= kKernelGaps) break;
    out << fmt::format("  {} ms from {} ms, {}, before {}\n", cell_ms(gap.length()), cell_ms(gap.start - e.begin),
                       in_phase(gap.phase), in_line(next_words(run, gap)));
    for (std::size_t i = gap.first_part; i < gap.first_part + gap.parts; ++i)
      if (const IdlePart& part = e.parts[i]; 20 * part.length().count >= gap.length().count)
        out << fmt::format("    {} ms {}: {}\n", cell_ms(part.length()), title(part.cause),
                           in_line(chain_words(run, part)));
  }
}

namespace {

/// The rows of one pattern stand in a bracket.
std::string_view bracket(std::size_t index, std::size_t rows) {
  if (rows == 1) return "";
  return index == 0 ? "┌ " : index + 1 == rows ? "└ " : "│ ";
}

}  // namespace

void print_path(std::ostream& out, const Run& run, const TimeExplanation& e, const std::vector<PathRow>& path) {
  out << "\ncritical path (compute, with waits too short for a row of their own, and waits)\n";
  Table table(
      {{"at, ms", Align::right}, {"ms", Align::right}, {"each", Align::right}, {"times", Align::right}, {"what"}});
  std::size_t rows = 0;
  for (const PathRow& row : path)
    for (std::size_t i = 0; i < row.pattern.size(); ++i) {
      if (++rows > kPathRows) continue;
      const PathStretch& stretch = row.pattern[i];
      const Nanoseconds each{stretch.time.count / static_cast<std::int64_t>(row.count)};
      table.row({cell_ms(stretch.start - e.begin), cell_ms(stretch.time), row.count > 1 ? cell_ms(each) : "",
                 row.count > 1 && i == 0 ? std::to_string(row.count) : "",
                 fmt::format("{}{}{}", bracket(i, row.pattern.size()), stretch.computes ? "" : "  ",
                             stretch_words(run, e, stretch, row.count))});
    }
  table.print(out);
  if (rows > kPathRows) out << fmt::format("  and {} more (--json has all)\n", rows - kPathRows);
}

void print_host(std::ostream& out, const Run& run, const TimeExplanation& e) {
  struct Late {
    std::string where;
    Nanoseconds time;
    std::size_t parts = 0;
  };
  std::vector<Late> late;
  for (const IdlePart& part : e.parts) {
    if (!is_host(part.cause)) continue;
    const std::string& range = run.labels.text(part.host);
    const std::string where =
        fmt::format("{}{}{}", phase_title(part.phase), part.unit.empty() ? "" : " of " + part.unit,
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
  for (const Late& entry : late) table.row({cell_ms(entry.time), std::to_string(entry.parts), entry.where});
  table.print(out);
}

}  // namespace foreshard::cli
