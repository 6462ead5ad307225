// What a search says: the answer in one line, how far from the bound it is, the command and the Python that set it,
// and what the next best trade.
//
// Who: cli's tune. Pure text; equal results give equal bytes.
#pragma once

#include <ostream>
#include <string>

#include "cli/options/topology_option.hpp"
#include "cli/terminal/output.hpp"
#include "core/settings/python_lines.hpp"
#include "sim/tune/tune.hpp"

namespace foreshard::cli {

struct TuneReport {
  std::string source;   ///< as the user gave it
  std::string options;  ///< source_words() and the memory limit: what `plan` needs beside settings
  std::string name;     ///< of the model or the recording
  std::string machine;
  bool machine_assumed = false;
  std::string model_options;          ///< traces::Source::model_options
  std::vector<std::string> left_out;  ///< traces::left_out() of the source
  std::string fabric;                 ///< fabric_of() of the source
  Topology topology;                  ///< that is on the machine
  Settings own;                       ///< the source's, which `plan` begins with
  std::string lists;  ///< the file that the best's prefetch lists are written to; empty: none was asked for
  sim::TuneRequest request;
  sim::TuneResult result;
  PythonLines code;          ///< of the best
  std::string fingerprint;   ///< empty: time ended it, which another run need not do there
  bool interrupted = false;  ///< that was a signal, and no time limit
};

/// What differs from the start, as plan's options.
[[nodiscard]] std::string changes_of(const TuneReport& report, const sim::TunedPoint& point);

/// What `plan` takes for the same numbers.
[[nodiscard]] std::string plan_command(const TuneReport& report, const sim::TunedPoint& point);

/// How the best differs from the start, where both run: milliseconds less, and nine of ten measured differences lie
/// within `gain_ms` ± `within_ms` (Prediction::difference).
struct Gain {
  double ms = 0;
  double within_ms = 0;
  double percent = 0;         ///< of the start's step
  double within_percent = 0;  ///< the same
};
/// None where one of them does not run, or where the best is slower: what was asked for retries, breaks the headroom or
/// may not fit.
[[nodiscard]] std::optional<Gain> gain_of(const sim::TuneResult& result);

/// What a CUDA graph that nobody allowed would bring: a step of so many times the best one's.
enum class GraphWorth : std::uint8_t {
  nothing = 0,         ///< no faster, as a search counts it (sim::kEqualSteps)
  not_told_apart = 1,  ///< by no more than `within`, to which their ratio is known
  faster = 2,
};
[[nodiscard]] GraphWorth worth_of(double of_best, double within);

[[nodiscard]] Json tune_json(const TuneReport& report);
void print_tune(std::ostream& out, const TuneReport& report);

}  // namespace foreshard::cli
