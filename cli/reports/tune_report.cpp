#include "cli/reports/tune_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/reports/counted.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/reports/tune_reason.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/machine/outside_range.hpp"
#include "sim/predict/interval.hpp"
#include "sim/sweep/candidates.hpp"

namespace foreshard::cli {
namespace {

using sim::SweepPoint;
using sim::TunedPoint;

bool ran(const TunedPoint& point) {
  return point.point.state == SweepPoint::State::ran;
}

bool is_start(const TuneReport& report) {
  return report.result.best && report.result.best->point.settings == report.result.start.point.settings;
}

/// "" or ", 2 GiB left free".
std::string headroom_words(const TuneReport& report) {
  const Bytes headroom = report.request.headroom;
  return headroom > 0 ? fmt::format(", {} left free", format_bytes(headroom)) : std::string();
}

/// "" or " within 75 GiB, 2 GiB left free".
std::string limit_words(const TuneReport& report) {
  const sim::TuneRequest& request = report.request;
  if (request.memory_limit) return " within " + format_bytes(*request.memory_limit) + headroom_words(report);
  return request.headroom > 0 ? fmt::format(" with {} left free", format_bytes(request.headroom)) : std::string();
}

/// Whether a warning of it says so.
bool is_outside(const SweepPoint& point) {
  return std::any_of(point.warnings.begin(), point.warnings.end(),
                     [](const std::string& warning) { return warning.starts_with(sim::kOutsideRange); });
}

bool breaks_headroom(const TuneReport& report, const SweepPoint& point) {
  return point.state == SweepPoint::State::ran && point.peaks.reserved > report.result.most_reserved;
}

/// Why a point that runs comes after a slower one: what is against its memory; empty: nothing, the slower one is as
/// fast (sim::kEqualSteps) and smaller.
std::string against(const TuneReport& report, const SweepPoint& point) {
  if (breaks_headroom(report, point)) return "leaves less than the headroom";
  if (point.step_num_alloc_retries > 0) return "retries allocations in each step";
  return fits(point) == sim::Fits::surely ? "" : "may not fit";
}

/// "; the step, against the start": what became of it.
std::string step_words(const TuneReport& report) {
  const SweepPoint& best = report.result.best->point;
  const TunedPoint& start = report.result.start;
  const std::string step = milliseconds(best.step_ms);
  if (!ran(start)) return step + " a step, as asked for it does not fit";
  const std::string asked = milliseconds(start.point.step_ms);
  const auto gain = gain_of(report.result);
  const std::string why = against(report, start.point);
  if (!gain && why.empty()) {
    const Bytes less = start.point.peaks.reserved - best.peaks.reserved;
    return fmt::format("{} a step, as fast as the {} as asked for, in {} less memory", step, asked, format_bytes(less));
  }
  if (!gain)
    return fmt::format("as asked for ({}) it {}; the fastest that does not takes {} a step ({:+.1f} %)", asked, why,
                       step, 100 * (best.step_ms / start.point.step_ms - 1));
  std::string words = fmt::format("{} a step, {:.1f} % (±{:.1f}) less than the {} as asked for", step, gain->percent,
                                  gain->within_percent, asked);
  if (gain->ms <= gain->within_ms) words += ", which a measurement may not tell apart";
  return words;
}

/// What a reader would not expect of the best's units: all blocks in one, or nothing sharded.
void print_units(std::ostream& out, const TuneReport& report) {
  const Settings& settings = report.result.best->point.settings;
  const std::vector<Unit>& units = report.result.units;
  if (settings.shard_ranks() == 1) {
    out << "nothing is sharded: each rank holds all parameters\n";
    return;
  }
  const std::size_t own = settings.fully_shard_embedding_and_head ? 4 : 2;  // the root and one of all blocks
  if (settings.units_per_group == 1 || units.size() != own) return;
  const Unit& blocks = units[own / 2];
  Bytes gathered = 0, reduced = 0;
  for (const Parameter& one : blocks.parameters) {
    const DType dtype = settings.param_dtype.value_or(one.dtype);
    gathered += one.numel() * itemsize(dtype);
    if (one.requires_grad) reduced += one.numel() * itemsize(settings.reduce_dtype.value_or(dtype));
  }
  out << fmt::format("all blocks are one FSDP unit: one all-gather of {} and one reduce-scatter of {}\n",
                     format_bytes(gathered), format_bytes(reduced));
}

/// What is much faster where retries are taken.
void print_retrying(std::ostream& out, const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  if (!result.fastest_retrying) return;
  const SweepPoint& point = result.fastest_retrying->point;
  out << fmt::format("with {} allocation {} a step, what they take included: {} ({:+.1f} %){}{}\n",
                     point.step_num_alloc_retries, point.step_num_alloc_retries == 1 ? "retry" : "retries",
                     milliseconds(point.step_ms), 100 * (point.step_ms / result.best->point.step_ms - 1),
                     changes_of(report, *result.fastest_retrying).empty() ? ", as asked for" : ": ",
                     short_changes(changes_of(report, *result.fastest_retrying)));
}

void print_answer(std::ostream& out, const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  if (!result.best) {
    const std::string reason = reason_of(report);
    const bool untimed = only_without_time(report);
    out << fmt::format(
        "{} within {}{}: {}{} of {} {} tried{}\n", untimed ? "nothing whose time is known fits" : "nothing fits",
        format_bytes(result.most_reserved + report.request.headroom), headroom_words(report),
        reason.empty() ? reason : reason + "; ", counted(static_cast<std::int64_t>(result.tried), "point", "points"),
        in_line(report.name), result.tried == 1 ? "was" : "were", untimed ? "" : ", and none does");
    return;
  }
  const SweepPoint& best = result.best->point;
  if (is_start(report) && result.tried == 1)
    out << fmt::format("only the start was tried{}: {} a step as asked for, {} reserved", limit_words(report),
                       milliseconds(best.step_ms), format_bytes(best.peaks.reserved));
  else if (is_start(report))
    out << fmt::format("no setting {}helps{}, because {}: {} a step as asked for, {} reserved",
                       result.end == sim::TuneEnd::nothing_helps ? "" : "that was tried ", limit_words(report),
                       reason_of(report), milliseconds(best.step_ms), format_bytes(best.peaks.reserved));
  else
    out << fmt::format("best{}{}, by time: {}; {} reserved: {}", report.interrupted ? " so far" : "",
                       limit_words(report), step_words(report), format_bytes(best.peaks.reserved),
                       short_changes(changes_of(report, *result.best)));
  if (best.step_num_alloc_retries > 0)
    out << fmt::format("; only with {} a step",
                       counted(best.step_num_alloc_retries, "allocation retry", "allocation retries"));
  out << (fits(best) == sim::Fits::surely ? "" : "; it may not fit") << (best.valid ? "" : "; not valid")
      << (is_outside(best) ? "; outside what the profile was calibrated on" : "") << '\n';
  print_retrying(out, report);
  print_units(out, report);
}

/// What ended the search before nothing helped any more; empty: nothing did.
std::string ended_by(const TuneReport& report) {
  switch (report.result.end) {
    case sim::TuneEnd::nothing_helps:
      break;
    case sim::TuneEnd::points:
      return "ended by --points";
    case sim::TuneEnd::time:
      return report.interrupted ? "interrupted" : "ended by --time-limit";
  }
  return {};
}

/// How far from the bound it ended, and what is in the way.
void print_bound(std::ostream& out, const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  if (!result.best) return;
  const SweepPoint& best = result.best->point;
  if (result.bound_ms > 0 && result.tried > 1) {
    const LongestFloor longest = longest_floor(best.floor);
    const std::string ended = ended_by(report);
    out << fmt::format(
        "bound: {}: {}; the best is {:.1f} % above it\nof the best's {} {} alone takes {}\n",
        milliseconds(result.bound_ms),
        ended.empty() ? "nothing that was tried can take less, in whatever order"
                      : fmt::format("that of {} alone: {}, and what was not tried may take less",
                                    counted(static_cast<std::int64_t>(result.tried), "point", "points"), ended),
        100 * (best.step_ms / result.bound_ms - 1), milliseconds(best.step_ms), longest.what, milliseconds(longest.ms));
  }
  if (!result.waits.headline.empty()) out << "why it is not faster: " << in_line(result.waits.headline) << '\n';
}

std::string marks(const TuneReport& report, const SweepPoint& point) {
  std::vector<std::string> words;
  if (breaks_headroom(report, point)) words.emplace_back("less than the headroom left");
  if (point.step_num_alloc_retries > 0) words.emplace_back("allocation retries");
  if (point.state == SweepPoint::State::out_of_memory) words.emplace_back("out of memory");
  if (point.host_binds) words.emplace_back("host-bound");
  if (point.state == SweepPoint::State::ran && fits(point) == sim::Fits::maybe) words.emplace_back("may not fit");
  if (!point.valid) words.emplace_back("not valid");
  return fmt::format("{}", fmt::join(words, ", "));
}

/// Whether a CUDA graph, which nobody allowed, would matter.
void print_graph(std::ostream& out, const TuneReport& report) {
  if (!report.result.with_cuda_graph) return;
  const SweepPoint& graph = report.result.with_cuda_graph->point;
  const double best_ms = report.result.best->point.step_ms;
  if (graph.state == SweepPoint::State::refused) {
    out << "--allow cuda-graph would not matter: " << in_line(graph.reason) << '\n';
    return;
  }
  const std::string options =
      sim::setting_text(report.result.best->point.settings, report.result.with_cuda_graph->point.settings);
  const std::string takes =
      fmt::format("the best with {} {}", short_changes(options),
                  ran(*report.result.with_cuda_graph)
                      ? fmt::format("takes {} ({:+.1f} %), {} reserved", milliseconds(graph.step_ms),
                                    100 * (graph.step_ms / best_ms - 1), format_bytes(graph.peaks.reserved))
                      : std::string("does not fit"));
  const double within = sim::difference_within(graph.difference, report.result.best->point.difference);
  switch (ran(*report.result.with_cuda_graph) ? worth_of(graph.step_ms / best_ms, within) : GraphWorth::nothing) {
    case GraphWorth::nothing:
      out << "--allow cuda-graph would not matter: " << takes << '\n';
      break;
    case GraphWorth::not_told_apart:
      out << fmt::format("--allow cuda-graph may not matter: {}, and ±{:.1f} % a measurement may not tell apart\n",
                         takes, 100 * within);
      break;
    case GraphWorth::faster:
      out << fmt::format("--allow cuda-graph would matter: {}{}\n", takes,
                         marks(report, graph).empty() ? std::string() : "; " + marks(report, graph));
      break;
  }
}

void print_counts(std::ostream& out, const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  out << fmt::format("{} {} of {} on {}{}", result.tried, result.tried == 1 ? "point" : "points",
                     in_line(model_title(report.name, report.model_options)), in_line(report.machine),
                     report.machine_assumed ? " (assumed)" : "");
  if (result.out_of_memory > 0) out << fmt::format(", {} out of memory", result.out_of_memory);
  if (result.doubted > 0) out << fmt::format(", {} less sure, which take no part", result.doubted);
  std::size_t refused = 0;
  for (const auto& [reason, points] : result.refused) refused += points;
  if (refused > 0) out << fmt::format(", {} refused", refused);
  if (result.pruned > 0) out << fmt::format("; {} left out by a bound", result.pruned);
  switch (result.end) {
    case sim::TuneEnd::nothing_helps:
      out << "; no move from the best ones helps any more\n";
      break;
    case sim::TuneEnd::points:
      out << "; " << ended_by(report) << ": more may be found\n";
      break;
    case sim::TuneEnd::time:
      out << "; " << ended_by(report) << ": another run may end elsewhere, --points repeats\n";
      break;
  }
  for (const std::string& what : report.left_out) out << in_line(left_out_line(what)) << '\n';
}

/// The start, what simpler searches find, the best and the next ones, each against the start and the best.
void print_points(std::ostream& out, const TuneReport& report) {
  constexpr auto kRight = Table::Align::right;
  const sim::TuneResult& result = report.result;
  Table table(
      {{""}, {"step", kRight}, {"to the best", kRight}, {"peak reserved", kRight}, {"to the best", kRight}, {""}});
  std::vector<std::pair<std::string, const TunedPoint*>> rows{{"as asked for", &result.start}};
  if (result.uniform) rows.emplace_back("best uniform", &*result.uniform);
  if (result.greedy) rows.emplace_back("best depth", &*result.greedy);
  if (result.fastest) rows.emplace_back("fastest", &*result.fastest);
  if (result.best) rows.emplace_back("best", &*result.best);
  for (std::size_t i = 0; i < result.next.size(); ++i)
    rows.emplace_back(fmt::format("next {}", i + 1), &result.next[i]);
  const SweepPoint* best = result.best ? &result.best->point : nullptr;
  for (const auto& [title, row] : rows) {
    const SweepPoint& point = row->point;
    std::vector<std::string> cells{title};
    const bool compared = best != nullptr && ran(*row);
    cells.push_back(ran(*row) ? milliseconds(point.step_ms) : "-");
    cells.push_back(compared ? fmt::format("{:+.1f} %", 100 * (point.step_ms / best->step_ms - 1)) : "");
    cells.push_back(format_bytes_fixed(point.peaks.reserved));
    cells.push_back(compared ? format_bytes_difference(static_cast<std::int64_t>(point.peaks.reserved) -
                                                       static_cast<std::int64_t>(best->peaks.reserved))
                             : "");
    cells.push_back(marks(report, point));
    table.row(cells);
  }
  out << '\n';
  table.print(out);
  for (const auto& [title, row] : rows) {
    const std::string options = short_changes(changes_of(report, *row));
    if (row == &result.start || options.empty()) continue;
    out << title << ": " << options << '\n';
  }
}

/// How the search came to the best, and what is against it.
void print_reasons(std::ostream& out, const TuneReport& report) {
  const sim::TuneResult& result = report.result;
  if (!result.changes.empty()) out << "\nwithout one of the changes, the others as they are:\n";
  for (const sim::ChangeWorth& one : result.changes)
    out << fmt::format("  {}: {}\n", short_changes(one.setting),
                       one.ms ? fmt::format("{:+.2f} ms, {}", *one.ms, format_bytes_difference(one.reserved))
                              : std::string("it does not fit then, or is less sure"));
  if (result.changes_not_tried > 0)
    out << fmt::format("{}{} {} taken back alone: the search was {}\n", result.changes.empty() ? "\n" : "  ",
                       result.changes_not_tried,
                       result.changes.empty() ? "changes of the best were not" : "more were not", ended_by(report));
  if (!result.changes.empty()) out << '\n';
  if (result.best)
    for (const std::string& why : result.best->point.not_valid) out << "not valid: " << in_line(why) << '\n';
  if (result.fastest_doubted) {
    const SweepPoint& point = result.fastest_doubted->point;
    std::vector<std::string> doubts = point.not_valid;
    for (const std::string& warning : point.warnings)
      if (warning.starts_with(sim::kOutsideRange)) doubts.push_back(warning);
    out << fmt::format("faster, but less sure: {} ({}): {}\n",
                       short_changes(changes_of(report, *result.fastest_doubted)), milliseconds(point.step_ms),
                       in_line(fmt::format("{}", fmt::join(doubts, "; "))));
  }
  if (!result.refused.empty()) out << "\nrefused:\n";
  for (const auto& [reason, points] : result.refused)
    out << fmt::format("  {} {}: {}\n", points, points == 1 ? "point" : "points", in_line(reason));
}

}  // namespace

std::string changes_of(const TuneReport& report, const sim::TunedPoint& point) {
  return sim::setting_text(report.result.start.point.settings, point.point.settings);
}

std::string plan_command(const TuneReport& report, const sim::TunedPoint& point) {
  const bool is_best = report.result.best && point.point.settings == report.result.best->point.settings;
  return plan_command(report.source, report.options, report.own, point.point.settings, is_best ? report.lists : "");
}

std::optional<Gain> gain_of(const sim::TuneResult& result) {
  if (!result.best || !ran(result.start)) return std::nullopt;
  const SweepPoint& start = result.start.point;
  const SweepPoint& best = result.best->point;
  if (best.step_ms > start.step_ms) return std::nullopt;
  const double within = sim::difference_within(start.difference, best.difference);
  const double ms = start.step_ms - best.step_ms;
  return Gain{ms, start.step_ms * within, 100 * ms / start.step_ms, 100 * within};
}

GraphWorth worth_of(double of_best, double within) {
  if (of_best > 1 - sim::kEqualSteps) return GraphWorth::nothing;
  return of_best >= 1 - within ? GraphWorth::not_told_apart : GraphWorth::faster;
}

void print_tune(std::ostream& out, const TuneReport& report) {
  print_answer(out, report);
  print_bound(out, report);
  print_counts(out, report);
  print_graph(out, report);
  print_points(out, report);
  print_reasons(out, report);
  if (report.result.best) {
    out << "\nplan it:\n  " << in_line(plan_command(report, *report.result.best)) << '\n';
    out << "\nin PyTorch:\n\n" << report.code.text();
  }
  if (!report.fingerprint.empty()) out << "\nfingerprint " << report.fingerprint << '\n';
}

}  // namespace foreshard::cli
