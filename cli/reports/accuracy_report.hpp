// What `accuracy` says: Markdown tables for people and documents, JSON and comma-separated values for programs.
//
// Pure text; equal measurements give equal bytes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "traces/accuracy/accuracy.hpp"
#include "traces/accuracy/published_collectives.hpp"

namespace foreshard::cli {

/// A published training throughput and its prediction from the model alone, tokens a second and GPU.
struct ThroughputRow {
  std::string source;
  std::string model;
  std::string machine;
  std::string setup;
  double published = 0;
  double predicted = 0;
  [[nodiscard]] double error() const { return predicted / published - 1; }
};

/// Everything that is held against something.
struct AccuracyResult {
  std::string folder;  ///< as the user gave it
  traces::Accuracy accuracy;
  std::vector<sim::CollectiveCheck> left_out;  ///< the profile's own points, each predicted without itself
  std::vector<ThroughputRow> throughput;
  struct PublishedCollectives {
    std::string machine;
    std::vector<sim::CollectiveCheck> checks;
  };
  std::vector<PublishedCollectives> published_collectives;
};

/// The sums of one kind of prediction.
struct AccuracySummary {
  int predicted = 0;
  int refused = 0;          ///< of these nothing could be predicted
  int not_valid = 0;        ///< the plan itself says so: not in the sums
  traces::ErrorSum gpu;     ///< error of the step, GPU- and link-bound
  traces::ErrorSum host;    ///< distance beyond the run's own range, host-bound
  traces::ErrorSum beyond;  ///< the same, all
  traces::ErrorSum allocated;
  traces::ErrorSum reserved;  ///< without record_stream, where time decides
  int exact = 0;              ///< all four peaks to the byte
  int clocked = 0;            ///< not exact, and follow record_stream
};
[[nodiscard]] AccuracySummary summarise(const traces::Accuracy& accuracy, traces::AccuracyRow::From from);

/// The sums in sentences and the table from models alone: what the README carries.
[[nodiscard]] std::string accuracy_summary_text(const AccuracyResult& result);
/// Every row of every table.
[[nodiscard]] std::string accuracy_tables_text(const AccuracyResult& result);
[[nodiscard]] Json accuracy_json(const AccuracyResult& result);
/// One line a prediction: kind, name, setup, measured, predicted, error, and the peaks of runs.
[[nodiscard]] std::string accuracy_csv(const AccuracyResult& result);

}  // namespace foreshard::cli
