// What a sweep says: table, JSON and comma-separated values from its points.
//
// Who: cli's sweep. Pure text; equal points give equal bytes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options/topology_option.hpp"
#include "cli/terminal/output.hpp"
#include "core/settings/python_lines.hpp"
#include "sim/sweep/largest_fit.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::cli {

/// Which of the points are best, by index; found among those that are alternatives to one another.
struct Ranking {
  std::vector<std::size_t> pareto;
  std::optional<std::size_t> best;  ///< of the fastest and those within SweepResult::near, the one of least memory
  std::vector<std::size_t> ties;    ///< what else cannot be told from the fastest, by time
  std::optional<std::size_t> fastest;
};

/// The ranking is that of the points with the first router_imbalance given.
struct SweepResult : Ranking {
  std::string source;  ///< as the user gave it
  std::string name;    ///< of the model or the recording
  std::string machine;
  std::vector<Range> ranges;
  std::map<std::pair<std::string, std::string>, std::string> files;  ///< GivenRanges::files
  std::optional<Bytes> memory_limit;                                 ///< that the points were simulated under
  std::vector<sim::SweepPoint> points;
  /// Of the further values of router_imbalance, in order: what routing makes of a step is no choice, so that points
  /// with several are not ranked together.
  std::vector<Ranking> others;
  /// /prediction/difference: how well the ratio of two steps is known that no host decides about. What their hosts may
  /// do to it in other processes says nothing on which is to be preferred.
  double near = 0;
  std::optional<PythonLines> code;           ///< of `best`
  std::string fingerprint;                   ///< of the whole sweep (fingerprint.hpp); empty: it was interrupted
  std::optional<std::size_t> most = {};      ///< where batch or sequence length differ: the most of a step that fits
  std::vector<sim::LargestFit> beyond = {};  ///< of `most`: the largest sizes that fit, where no next one is a point
  bool machine_assumed = false;              ///< machine_assumed() of the source
  std::string model_options = {};            ///< traces::Source::model_options
  std::vector<std::string> left_out = {};    ///< traces::left_out() of the source
  std::string fabric = {};                   ///< fabric_of() of the source
  Topology topology = {};                    ///< that is on the machine
  std::string unlike = {};                   ///< UnlikeOptions::given() as text: of which job every point is
  std::size_t not_tried = 0;                 ///< points that it came not to: it was interrupted
};

/// "ran", "out_of_memory": as in every form of the result.
[[nodiscard]] std::string_view name(sim::SweepPoint::State state);
/// "fits", "may not fit", "does not fit".
[[nodiscard]] std::string_view name(sim::Fits fits);
/// A refused point that asks for more than `most`: whether more fits is then not known. Null without one.
[[nodiscard]] const sim::SweepPoint* larger_refused(const SweepResult& result);
/// The range of this size, where it has several values; else null.
[[nodiscard]] const Range* range_of(const SweepResult& result, sim::SizeSetting size);
/// Fills what is found in the points, all but `beyond`.
void find_best(SweepResult& result);

[[nodiscard]] Json sweep_json(const SweepResult& result);
/// Every point, one a line, in order.
[[nodiscard]] std::string sweep_csv(const SweepResult& result);
/// The Pareto table, the best point with its ties, what was refused, and the lines that set the best.
void print_sweep(std::ostream& out, const SweepResult& result);

}  // namespace foreshard::cli
