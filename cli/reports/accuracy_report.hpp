// What `accuracy` says: Markdown tables for people and documents, JSON and comma-separated values for programs.
//
// Rows that constants of the profile were fitted on and rows that they were not are apart everywhere
// (MachineProfile::provenance). Pure text; equal measurements give equal bytes.
#pragma once

#include <string>
#include <vector>

#include "accuracy/accuracy.hpp"
#include "accuracy/baseline.hpp"
#include "accuracy/contention_rows.hpp"
#include "accuracy/interval_rows.hpp"
#include "accuracy/published_collectives.hpp"
#include "cli/terminal/output.hpp"

namespace foreshard::cli {

/// A published training throughput and its prediction from the model alone, tokens a second and GPU.
struct ThroughputRow {
  std::string source;
  std::string model;
  std::string machine;
  std::string setup;
  double published = 0;
  double predicted = 0;
  accuracy::AccuracyRow::Seen seen = accuracy::AccuracyRow::Seen::not_stated;
  [[nodiscard]] double error() const { return predicted / published - 1; }
};

/// Everything that is held against something.
struct AccuracyResult {
  std::string folder;  ///< as the user gave it
  accuracy::Accuracy accuracy;
  std::vector<accuracy::CollectiveCheck> left_out;  ///< the profile's own points, each predicted without itself
  std::vector<ThroughputRow> throughput;
  struct PublishedCollective {
    std::string machine;
    accuracy::AccuracyRow::Seen seen = accuracy::AccuracyRow::Seen::not_stated;
    accuracy::CollectiveCheck check;
  };
  std::vector<PublishedCollective> published_collectives;
  std::vector<accuracy::ContentionCheck> contention;
  std::vector<accuracy::IntervalRow> interval_rows;      ///< of these runs and published rates
  std::vector<accuracy::IntervalRow> all_interval_rows;  ///< and of runs of other folders
  sim::PredictionSpec widths;                            ///< that plans on this machine state
  accuracy::Baseline baseline;                           ///< every error of the above
};

/// Five rows that were held out, their number and errors, and what is not among them: what the README carries.
[[nodiscard]] std::string accuracy_headline_text(const AccuracyResult& result);
/// The sums in sentences, of rows held out and of rows fitted on, and the tables from models alone.
[[nodiscard]] std::string accuracy_summary_text(const AccuracyResult& result);
/// Every row of every table.
[[nodiscard]] std::string accuracy_tables_text(const AccuracyResult& result);
[[nodiscard]] Json accuracy_json(const AccuracyResult& result);
/// One line a prediction: kind, name, setup, measured, predicted, error, the peaks of runs, and whether it was held
/// out.
[[nodiscard]] std::string accuracy_csv(const AccuracyResult& result);

}  // namespace foreshard::cli
