// `accuracy`'s Markdown: sentences and tables.
#include "cli/reports/accuracy_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "accuracy/intervals.hpp"
#include "accuracy/promises.hpp"
#include "cli/reports/accuracy_parts.hpp"

namespace foreshard::cli {
namespace {

using accuracy::AccuracyRow;
using accuracy::ErrorSum;
using From = AccuracyRow::From;

std::string percent(double error) {
  return fmt::format("{:+.1f} %", 100 * error);
}

std::string difference(Bytes predicted, Bytes measured) {
  return predicted == measured ? "0" : fmt::format("{:+.2f} %", 100 * relative(predicted, measured));
}

std::string title(const AccuracyRow& row) {
  return row.from == From::sibling ? fmt::format("`{}` → `{}`", row.source, row.run) : fmt::format("`{}`", row.run);
}

constexpr std::string_view kRunHead =
    "predicted, ms | measured, ms | error | beyond its range | side | requested | allocated | active | reserved | "
    "misses the promise |\n|---|---|---|---|---|---|---|---|---|---|---|\n";

std::string line(const AccuracyRow& row) {
  if (!row.refused.empty()) return fmt::format("| {} | refused: {} | | | | | | | | | |\n", title(row), row.refused);
  const auto& m = row.measured;
  std::string time =
      fmt::format("| {} | – | {:.1f} [{:.1f}–{:.1f}] | – | – | – |", title(row), m.median_ms, m.low_ms, m.high_ms);
  if (row.has_time)
    time = fmt::format("| {} | {:.1f} | {:.1f} [{:.1f}–{:.1f}] | {} | {:.1f} % | {}{} |", title(row), row.step_ms,
                       m.median_ms, m.low_ms, m.high_ms, percent(row.error()), 100 * row.beyond(),
                       row.host_bound      ? "host"
                       : row.host_may_bind ? "GPU or host"
                                           : "GPU",
                       row.time_known ? "" : ", not valid");
  const std::string last =
      row.differs.empty() ? fmt::format("{}", fmt::join(accuracy::missed(row), ", ")) : "not asked: " + row.differs;
  return time + fmt::format(" {} | {} | {} | {} | {} |\n", difference(row.peaks.requested, m.peaks.requested),
                            difference(row.peaks.allocated, m.peaks.allocated),
                            difference(row.peaks.active, m.peaks.active),
                            difference(row.peaks.reserved, m.peaks.reserved), last);
}

bool any(const accuracy::Accuracy& accuracy, From from, Seen seen) {
  return std::any_of(accuracy.rows.begin(), accuracy.rows.end(),
                     [&](const AccuracyRow& row) { return row.from == from && row.seen == seen; });
}

std::string run_table(const accuracy::Accuracy& accuracy, From from, Seen seen, std::string_view first) {
  if (!any(accuracy, from, seen)) return "None.\n";
  std::string out = fmt::format("| {} | {}", first, kRunHead);
  for (const AccuracyRow& row : accuracy.rows)
    if (row.from == from && row.seen == seen) out += line(row);
  return out;
}

std::string mean_and_worst(const ErrorSum& sum) {
  return fmt::format("mean error {:.2f} %, worst {:.1f} %", 100 * sum.mean(), 100 * sum.worst);
}

accuracy::Rankings rankings_of(const accuracy::Accuracy& accuracy, Seen seen) {
  accuracy::Rankings rankings;
  for (const AccuracyRow& row : accuracy.rows)
    if (row.from == From::sibling && row.seen == seen && row.has_time && !row.host_bound && row.time_known &&
        row.differs.empty())
      rankings.add(row.source, row.step_ms, row.measured);
  return rankings;
}

std::string capture_sentences(const accuracy::Accuracy& accuracy, Seen seen) {
  const AccuracySummary self = summarise(accuracy, From::itself, seen);
  const AccuracySummary s = summarise(accuracy, From::sibling, seen);
  std::string out = fmt::format(
      "From a recording, at its own settings: all four peaks exact to the byte in {} of {} "
      "runs.\n\nFrom a recording, at another run's settings ({} pairs{}): GPU- and link-bound "
      "{} pairs, {}; host-bound {} pairs, at most {:.1f} % outside the measured range of ten "
      "steps. Memory: all four peaks exact in {} of {} pairs; {} of the others follow "
      "record_stream, where time decides. {} pairs miss a promise.",
      self.exact, self.predicted, s.predicted,
      s.refused == 0 ? "" : fmt::format("; {} more cannot be derived from the recording", s.refused), s.gpu.count,
      mean_and_worst(s.gpu), s.host.count, 100 * s.host.worst, s.exact, s.predicted, s.clocked, s.missed);
  if (s.not_valid > 0)
    out += fmt::format(" {} pairs whose time the plan itself calls not valid are not in these times.", s.not_valid);
  const accuracy::Rankings rankings = rankings_of(accuracy, seen);
  return out + fmt::format(
                   "\nRanking: of settings planned from one recording whose measured steps differ by more than "
                   "3 % and their spread, {} pairs are in the right order and {} are not.\n",
                   rankings.right(), rankings.wrong());
}

std::string model_sentence(const accuracy::Accuracy& accuracy, Seen seen) {
  const AccuracySummary s = summarise(accuracy, From::model, seen);
  return fmt::format(
      "From the model and the `{}` profile only, {} runs{}{}: GPU- and link-bound {}, {} against the median; step "
      "time "
      "{} beyond the run's own range of ten steps, all; peak allocated {}; peak reserved {} (without record_stream). "
      "{} "
      "runs miss a promise.\n",
      accuracy.machine, s.predicted, s.refused == 0 ? "" : fmt::format(" ({} more have no model)", s.refused),
      s.differs == 0 ? "" : fmt::format(" ({} more did what no model says)", s.differs), s.gpu.count,
      mean_and_worst(s.gpu), mean_and_worst(s.beyond), mean_and_worst(s.allocated), mean_and_worst(s.reserved),
      s.missed);
}

std::vector<accuracy::CollectiveCheck> collectives_of(const AccuracyResult& result, Seen seen, bool by_pytorch) {
  std::vector<accuracy::CollectiveCheck> out;
  for (const accuracy::CollectiveRow& row : result.accuracy.collectives)
    if (row.seen == seen && row.by_pytorch == by_pytorch) out.push_back(row.check);
  return out;
}

std::string collective_sentences(const AccuracyResult& result, Seen seen) {
  std::string out;
  for (const bool by_pytorch : {false, true})
    if (const ErrorSum sum = sum_of(collectives_of(result, seen, by_pytorch)); sum.count > 0)
      out += fmt::format("Isolated collectives, 1 MiB to 1 GiB, {}: {} measured points, {}.\n",
                         by_pytorch ? "in a loop of PyTorch's" : "called from C", sum.count, mean_and_worst(sum));
  const ErrorSum without = sum_of(result.left_out);
  if (seen == Seen::held_out && without.count > 0)
    out += fmt::format("The profile's own points, each predicted without itself: {} points, {}.\n", without.count,
                       mean_and_worst(without));
  std::set<std::string> machines;
  for (const auto& row : result.published_collectives)
    if (row.seen == seen) machines.insert(row.machine);
  for (const std::string& machine : machines) {
    ErrorSum all;
    for (const auto& row : result.published_collectives)
      if (row.seen == seen && row.machine == machine) all.add(row.check.error());
    out += fmt::format("Published collectives on `{}`: {} rows, {}.\n", machine, all.count, mean_and_worst(all));
  }
  return out;
}

ErrorSum throughput_of(const AccuracyResult& result, Seen seen, std::string_view source = {}) {
  ErrorSum sum;
  for (const ThroughputRow& row : result.throughput)
    if (row.seen == seen && (source.empty() || row.source == source)) sum.add(row.error());
  return sum;
}

std::string throughput_sentence(const AccuracyResult& result, Seen seen) {
  const ErrorSum all = throughput_of(result, seen);
  if (all.count == 0) return {};
  std::vector<std::string> parts;
  for (const ThroughputRow& row : result.throughput) {
    const ErrorSum sum = throughput_of(result, seen, row.source);
    const std::string part = fmt::format("{}: {} rows, {}", row.source, sum.count, mean_and_worst(sum));
    if (row.seen == seen && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  return fmt::format("Published throughput, {} rows, {} ({}).\n", all.count, mean_and_worst(all),
                     fmt::join(parts, "; "));
}

constexpr std::string_view kHeldOut = "Held out: no constant of the profile was fitted on these";
constexpr std::string_view kFitted = "Fitted: some constant of the profile was fitted on these";
constexpr std::string_view kNotStated = "The profile does not say what its constants were fitted on";

std::string_view heading(Seen seen) {
  return seen == Seen::held_out ? kHeldOut : seen == Seen::fitted ? kFitted : kNotStated;
}

bool any(const AccuracyResult& result, Seen seen) {
  const auto is = [seen](const auto& row) { return row.seen == seen; };
  const auto& a = result.accuracy;
  return std::any_of(a.rows.begin(), a.rows.end(), is) || std::any_of(a.collectives.begin(), a.collectives.end(), is) ||
         std::any_of(result.throughput.begin(), result.throughput.end(), is) ||
         std::any_of(result.published_collectives.begin(), result.published_collectives.end(), is);
}

/// Models whose runs were all fitted on: nothing here says how well they are predicted.
std::vector<std::string> without_held_out(const accuracy::Accuracy& accuracy) {
  std::set<std::string> all;
  std::set<std::string> held_out;
  for (const AccuracyRow& row : accuracy.rows) {
    if (row.from != From::model || !row.refused.empty()) continue;
    all.insert(row.model);
    if (row.seen == Seen::held_out && row.differs.empty()) held_out.insert(row.model);
  }
  std::vector<std::string> out;
  std::set_difference(all.begin(), all.end(), held_out.begin(), held_out.end(), std::back_inserter(out));
  return out;
}

std::string left_out_sentences(const AccuracyResult& result) {
  std::string out;
  if (const auto models = without_held_out(result.accuracy); !models.empty())
    out += fmt::format("No held-out run: {}.\n", fmt::join(models, ", "));
  for (const accuracy::NotImportable& one : result.accuracy.not_importable)
    out += fmt::format("Not importable: `{}`: {}.\n", one.run, one.why);
  return out;
}

std::string collective_table(std::span<const accuracy::CollectiveCheck> checks) {
  std::string out = "| collective | measured, µs | predicted, µs | error | path | from |\n|---|---|---|---|---|---|\n";
  for (const accuracy::CollectiveCheck& check : checks)
    out += fmt::format("| {} | {:.1f} | {:.1f} | {} | {} | {} |\n", describe(check.request), check.measured_us,
                       check.predicted_us, percent(check.error()), check.path, check.from);
  return out;
}

/// Fitted all of them: the contention constants of h200 come from these measurements.
std::string contention_table(std::span<const accuracy::ContentionCheck> checks) {
  std::string out =
      "### Kernels and collectives side by side, time over time alone\n\n| row | kernel: measured | model | "
      "collective: "
      "measured | model |\n|---|---|---|---|---|\n";
  const auto both = [](double measured, double model) {
    return measured > 0 ? fmt::format(" {:.2f} | {:.2f} |", measured, model) : std::string(" – | – |");
  };
  for (const accuracy::ContentionCheck& check : checks)
    out += fmt::format("| {}: {} |{}{}\n", check.how == accuracy::ContentionCheck::How::rows ? "in rows" : "covered",
                       check.name, both(check.kernel_measured, check.kernel_model),
                       both(check.collective_measured, check.collective_model));
  return out;
}

std::string part_tables(const AccuracyResult& result, Seen seen) {
  std::string out = fmt::format("### {}\n\n#### Runs from their models only\n\n", heading(seen)) +
                    run_table(result.accuracy, From::model, seen, "run, from its model only") +
                    "\n#### Runs from recordings at other settings\n\n" +
                    run_table(result.accuracy, From::sibling, seen, "recording → settings of");
  std::vector<accuracy::CollectiveCheck> checks;
  for (const accuracy::CollectiveRow& row : result.accuracy.collectives) {
    if (row.seen != seen) continue;
    checks.push_back(row.check);
    checks.back().from = row.file;
  }
  if (!checks.empty()) out += "\n#### Isolated collectives\n\n" + collective_table(checks);
  std::vector<accuracy::CollectiveCheck> published;
  for (const auto& row : result.published_collectives) {
    if (row.seen != seen) continue;
    published.push_back(row.check);
    published.back().from += ", `" + row.machine + "`";
  }
  if (!published.empty()) out += "\n#### Published collectives\n\n" + collective_table(published);
  if (throughput_of(result, seen).count == 0) return out + "\n";
  out +=
      "\n#### Published throughput\n\n| source | model | machine | setup | published, tokens/s/GPU | predicted | error "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const ThroughputRow& row : result.throughput)
    if (row.seen == seen)
      out += fmt::format("| {} | {} | {} | {} | {:.0f} | {:.0f} | {} |\n", row.source, row.model, row.machine,
                         row.setup, row.published, row.predicted, percent(row.error()));
  return out + "\n";
}

/// A half width as logarithm, as the percentage above.
std::string half_width(double width) {
  return fmt::format("±{:.1f} %", 100 * std::expm1(width));
}

std::string share_inside(int inside, int rows) {
  if (rows == 0) return "–";
  return fmt::format("{} of {} ({:.0f} %)", inside, rows, 100.0 * inside / rows);
}

std::string check_table(const std::vector<accuracy::IntervalCheck>& checks) {
  std::string out =
      "| predicted | width | stated | needed | rows | programs | inside | inside, its program left out "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const accuracy::IntervalCheck& check : checks) {
    const bool one = !check.stated.empty();
    if (check.rows == 0)
      out += fmt::format("| {} | `{}` | {} | – | no row | – | – | – |\n", check.what, check.stated,
                         half_width(check.width));
    else
      out += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", check.what,
                         one ? fmt::format("`{}`", check.stated) : "", one ? half_width(check.width) : "",
                         one ? half_width(check.needed) : "", check.rows, check.programs,
                         share_inside(check.inside, check.rows), share_inside(check.left_out, check.left_out_rows));
  }
  return out;
}

/// Whether the intervals that plans state hold what was measured.
std::string interval_table(const AccuracyResult& result) {
  const auto tables = [&](const std::vector<accuracy::IntervalRow>& rows) {
    return check_table(accuracy::check_intervals(rows, result.widths)) + "\n" +
           check_table(accuracy::check_differences(rows, result.widths));
  };
  std::string out = fmt::format(
      "### Intervals\n\nEach is to hold {:.0f} % of the measured steps. Needed: the width that holds as many of "
      "these rows and of one more. Left out: with the widths that the rows of other programs need; kinds that one "
      "program alone has are not counted.\n\n",
      100 * accuracy::kIntervalShare);
  out += tables(result.interval_rows);
  if (result.all_interval_rows.size() > result.interval_rows.size())
    out += "\nWith the rows of runs of other folders (tests/reference/interval_rows.csv):\n\n" +
           tables(result.all_interval_rows);
  return out + "\n";
}

/// "4 %", "1.5 %"
std::string percent_of(double share) {
  return fmt::format("{:.3g} %", 100 * share);
}

std::string promised(double mean, double worst) {
  return fmt::format("mean {}, worst {}", percent_of(mean), percent_of(worst));
}

std::string headline_row(std::string_view what, int rows, std::string_view found, std::string_view promised) {
  return fmt::format("| {} | {} | {} | {} |\n", what, rows, rows == 0 ? "no held-out row" : found, promised);
}

}  // namespace

std::string accuracy_headline_text(const AccuracyResult& result) {
  const AccuracySummary pairs = summarise(result.accuracy, From::sibling, Seen::held_out);
  const AccuracySummary models = summarise(result.accuracy, From::model, Seen::held_out);
  const ErrorSum from_c = sum_of(collectives_of(result, Seen::held_out, false));
  const ErrorSum from_pytorch = sum_of(collectives_of(result, Seen::held_out, true));
  const ErrorSum throughput = throughput_of(result, Seen::held_out);
  std::string out =
      "| predicted, on runs that no constant was fitted on | rows | error | promised |\n|---|---|---|---|\n";
  out += headline_row("step from a recording at other settings, GPU- or link-bound", pairs.gpu.count,
                      mean_and_worst(pairs.gpu), promised(accuracy::kMeanStep, accuracy::kPromises.step));
  out += headline_row("step from the model alone, GPU- or link-bound", models.gpu.count, mean_and_worst(models.gpu),
                      promised(accuracy::kMeanModelStep, accuracy::kPromises.model_step));
  out += headline_row("… and those that the host binds, or may", models.step.count, mean_and_worst(models.step),
                      "its interval");
  out += headline_row("peak reserved memory from the model alone", models.reserved.count,
                      mean_and_worst(models.reserved), percent_of(accuracy::kPromises.model_reserved));
  const std::string collective = "mean " + percent_of(accuracy::kMeanCollective);
  out += headline_row("a collective alone, 1 MiB to 1 GiB, from C", from_c.count, mean_and_worst(from_c), collective);
  out += headline_row("… in a loop of PyTorch's", from_pytorch.count, mean_and_worst(from_pytorch), collective);
  out += headline_row("published training throughput", throughput.count, mean_and_worst(throughput), "none");
  const auto fitted = [&](From from) { return summarise(result.accuracy, from, Seen::fitted).predicted; };
  out += fmt::format(
      "\n{} more pairs and {} more runs are of recordings that constants of `{}` were fitted on. "
      "[Every row, and what misses](docs/accuracy.md).\n",
      fitted(From::sibling), fitted(From::model), result.accuracy.machine);
  return out;
}

std::string accuracy_summary_text(const AccuracyResult& result) {
  std::string out;
  for (const Seen seen : {Seen::held_out, Seen::fitted, Seen::not_stated}) {
    if (!any(result, seen)) continue;
    out += fmt::format("## {}\n\n", heading(seen)) + capture_sentences(result.accuracy, seen) + "\n" +
           model_sentence(result.accuracy, seen) + "\n" + collective_sentences(result, seen) +
           throughput_sentence(result, seen) + "\n" +
           run_table(result.accuracy, From::model, seen, "run, from its model only") + "\n";
  }
  return out + interval_table(result) + left_out_sentences(result);
}

std::string accuracy_tables_text(const AccuracyResult& result) {
  std::string out;
  for (const Seen seen : {Seen::held_out, Seen::fitted, Seen::not_stated})
    if (any(result, seen)) out += part_tables(result, seen);
  return out + interval_table(result) + contention_table(result.contention) + "\n" + left_out_sentences(result);
}

}  // namespace foreshard::cli
