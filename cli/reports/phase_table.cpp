#include "cli/reports/phase_table.hpp"

#include <fmt/format.h>

#include <array>
#include <numeric>

#include "cli/terminal/output.hpp"
#include "core/base/add_up.hpp"
#include "core/run/phase_words.hpp"

namespace foreshard::cli {
namespace {

constexpr int kPhaseDecimals = 2;
constexpr std::array<Nanoseconds PhaseTime::*, 4> kParts{&PhaseTime::compute, &PhaseTime::exposed_communication,
                                                         &PhaseTime::host, &PhaseTime::other};

double sum_of(const std::vector<double>& parts) {
  return as_printed(std::accumulate(parts.begin(), parts.end(), 0.0), kPhaseDecimals);
}

void add_row(Table& table, const std::string& title, const std::vector<double>& parts, double sum) {
  std::vector<std::string> cells{title};
  for (const double part : parts) cells.push_back(fmt::format("{:.2f}", part));
  cells.push_back(fmt::format("{:.2f}", sum));
  table.row(std::move(cells));
}

}  // namespace

std::vector<double> printed_phase_parts(const PhaseTime& step) {
  std::vector<double> parts;
  for (const auto part : kParts) parts.push_back(as_printed((step.*part).ms(), kPhaseDecimals));
  const double rest = printed_difference(step.sum().ms(), sum_of(parts), kPhaseDecimals);
  for (const std::size_t small : {std::size_t{3}, std::size_t{2}}) {  // other, host
    const double with_rest = as_printed(parts[small] + rest, kPhaseDecimals);
    if (with_rest < 0) continue;
    parts[small] = with_rest;
    break;
  }
  return parts;
}

std::vector<double> printed_step_parts(const PhaseTime& step, Nanoseconds reported) {
  std::vector<double> parts = printed_phase_parts(step);
  parts.push_back(printed_difference(reported.ms(), step.sum().ms(), kPhaseDecimals));
  return parts;
}

void print_phase_table(std::ostream& out, const std::string& title, const std::vector<PhaseTime>& rows,
                       const PhaseTime& step) {
  constexpr auto kToTheRight = Table::Align::right;
  Table table({{title},
               {"compute", kToTheRight},
               {"exposed communication", kToTheRight},
               {"host", kToTheRight},
               {"other", kToTheRight},
               {"sum", kToTheRight}});
  const std::vector<double> whole = printed_phase_parts(step);
  std::vector<std::vector<double>> cells(rows.size());
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    std::vector<double> column;
    for (const PhaseTime& row : rows) column.push_back((row.*kParts[part]).ms());
    column = add_up(column, whole[part], kPhaseDecimals);
    for (std::size_t i = 0; i < rows.size(); ++i) cells[i].push_back(column[i]);
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    add_row(table, "  " + phase_title(rows[i].phase), cells[i], sum_of(cells[i]));
  add_row(table, "step", whole, step.sum().ms());
  out << '\n';
  table.print(out);
}

}  // namespace foreshard::cli
