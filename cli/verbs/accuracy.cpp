// `foreshard accuracy DIR`: holds every recorded run of a folder against its predictions.

#include <fmt/core.h>

#include <ctime>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "accuracy/baseline.hpp"
#include "accuracy/contention_rows.hpp"
#include "accuracy/published_throughput.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/reports/accuracy_report.hpp"
#include "cli/verbs/verbs.hpp"
#include "sim/machine/profile.hpp"
#include "sim/parallel/for_each.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::cli {
namespace {

struct AccuracyOptions {
  std::string folder;
  std::string machine = "h200";
  unsigned jobs = 0;
  bool published = true;
  std::string csv;
  std::string output;
  std::string headline;
  std::string baseline;
  std::string interval_rows;
  bool force = false;
  bool json = false;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  char date[16] = {};
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  return date;
}

std::string printed_by(const AccuracyResult& result) {
  return fmt::format("\nPrinted by `foreshard accuracy` on {}, machine profile `{}`.", today(),
                     result.accuracy.machine);
}

std::string footer(const AccuracyResult& result) {
  return printed_by(result) +
         " Measured: median of the steps with nothing recording (without the first two), in brackets the second "
         "smallest and second largest; where steps differ, means of cycles. Peaks: predicted against "
         "`torch.cuda.memory_stats()` of the last recorded step.\n";
}

Result<void> add_throughput(AccuracyResult& result, unsigned threads) {
  auto rows = accuracy::predict_all_published(threads);
  FORESHARD_TRY(rows);
  accuracy::add_throughput(*rows, result.baseline);
  for (const accuracy::PublishedRow& row : *rows) {
    const auto machine = accuracy::machine_of(*row.row);
    FORESHARD_TRY(machine);
    result.interval_rows.push_back(accuracy::published_interval_row(row));
    result.throughput.push_back({row.row->source, row.row->model, row.row->machine, accuracy::setup_of(*row.row),
                                 row.row->tokens, row.predicted,
                                 accuracy::seen(*machine, sim::ConstantUse::model, row.row->source)});
  }
  return {};
}

Result<void> add_published(AccuracyResult& result, const sim::MachineProfile& machine, unsigned threads) {
  result.left_out = accuracy::check_tables(machine, accuracy::LeaveOut::size);
  for (const std::string_view name : sim::builtin_profile_names()) {
    const auto profile = sim::builtin_profile(name);
    FORESHARD_TRY(profile);
    std::vector<accuracy::CollectiveCheck> checks = accuracy::check_published(*profile);
    accuracy::add_published_collectives(name, checks, result.baseline);
    for (accuracy::CollectiveCheck& check : checks) {
      const auto seen = accuracy::seen(*profile, sim::ConstantUse::collective, check.from);
      result.published_collectives.push_back({std::string(name), seen, std::move(check)});
    }
  }
  return add_throughput(result, threads);
}

Result<AccuracyResult> measure(const AccuracyOptions& options, const sim::MachineProfile& machine, Console& console) {
  AccuracyResult result;
  result.folder = options.folder;
  const unsigned threads = options.jobs == 0 ? sim::hardware_threads() : options.jobs;
  {
    Progress progress(console, "runs and predictions");
    accuracy::AccuracyRequest request;
    request.folder = options.folder;
    request.threads = threads;
    request.on_progress = [&](std::size_t done, std::size_t of) { progress.at(done, of); };
    auto accuracy = accuracy::measure_accuracy(machine, request);
    FORESHARD_TRY(accuracy);
    result.accuracy = std::move(*accuracy);
    accuracy::add_runs(result.accuracy, result.baseline);
  }
  result.widths = machine.prediction;
  result.interval_rows = accuracy::interval_rows(result.accuracy);
  result.contention = accuracy::check_contention(machine);
  accuracy::add_contention(result.contention, result.baseline);
  if (options.published) FORESHARD_TRY(add_published(result, machine, threads));
  result.all_interval_rows = result.interval_rows;
  return result;
}

/// The rows of earlier folders stay, those of this one take their places.
Result<void> update_interval_rows(const std::string& path, AccuracyResult& result) {
  if (std::error_code error; std::filesystem::exists(path, error)) {
    const auto text = traces::read_text(path);
    FORESHARD_TRY(text);
    auto before = accuracy::read_interval_rows(*text, path);
    FORESHARD_TRY(before);
    result.all_interval_rows = accuracy::with_rows(std::move(*before), result.interval_rows);
  }
  return write_text(path, accuracy::interval_rows_csv(result.all_interval_rows), true);
}

Result<int> accuracy(const AccuracyOptions& options, Console& console) {
  for (const std::string& path : {options.csv, options.output, options.headline, options.baseline})
    if (!path.empty()) FORESHARD_TRY(may_write(path, options.force));
  const auto machine = read_machine(options.machine);
  FORESHARD_TRY(machine);
  auto result = measure(options, *machine, console);
  FORESHARD_TRY(result);
  if (!options.interval_rows.empty()) FORESHARD_TRY(update_interval_rows(options.interval_rows, *result));
  if (!options.csv.empty()) FORESHARD_TRY(write_text(options.csv, accuracy_csv(*result), options.force));
  if (!options.output.empty())
    FORESHARD_TRY(write_text(options.output, accuracy_tables_text(*result) + footer(*result), options.force));
  if (!options.headline.empty())
    FORESHARD_TRY(
        write_text(options.headline, accuracy_headline_text(*result) + printed_by(*result) + "\n", options.force));
  if (!options.baseline.empty())
    FORESHARD_TRY(write_text(options.baseline, accuracy::baseline_csv(result->baseline), options.force));
  if (options.json)
    print_json(console.out, accuracy_json(*result));
  else
    console.out << accuracy_summary_text(*result) << footer(*result);
  return static_cast<int>(kDone);
}

}  // namespace

Action add_accuracy(OptionSet& set) {
  auto options = std::make_shared<AccuracyOptions>();
  set.add_option("folder", options->folder, "holds runs/ (recordings with their measurements) and collectives/")
      .required()
      .type_name("DIR");
  set.add_option("--machine", options->machine, "profile of the machine that the runs were recorded on; default h200")
      .type_name("NAME|FILE")
      .suggest(sim::builtin_profile_names());
  set.add_option("--jobs", options->jobs, "threads; default: every core").type_name("N").range(1U, 1024U);
  set.add_flag("!--no-published", options->published, "leave published tables out");
  set.add_option("--csv", options->csv, "write every row as comma-separated values").type_name("FILE").writes();
  set.add_option("-o,--output", options->output, "write every table as Markdown").type_name("FILE").writes();
  set.add_option("--headline", options->headline, "write the sums of held-out rows as one Markdown table")
      .type_name("FILE")
      .writes();
  set.add_option("--baseline", options->baseline,
                 "write every error as the table that tests/reference holds predictions against")
      .type_name("FILE")
      .writes();
  set.add_option("--interval-rows", options->interval_rows,
                 "keep the rows that intervals are read off in this table, beside those of other folders")
      .type_name("FILE");
  set.add_flag("--force", options->force, "write over existing files");
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) { return accuracy(*options, console); };
}

}  // namespace foreshard::cli
