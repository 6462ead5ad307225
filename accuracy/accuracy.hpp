// Every recorded run of a folder against its predictions: from captures, from the model alone, and collectives.
//
// Who: cli's accuracy, which prints and stores it; tests/reference, which hold bars. Reads files; rows are in a fixed
// order whatever the number of threads.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "accuracy/published_collectives.hpp"
#include "accuracy/reference_run.hpp"
#include "core/base/error.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::accuracy {

/// One prediction of one run.
struct AccuracyRow {
  enum class From : std::uint8_t {
    itself = 0,   ///< its own recording, at its own settings
    sibling = 1,  ///< the recording of the same program at other settings
    model = 2,    ///< the model and the machine profile alone
  };
  From from = From::itself;
  std::string source;   ///< the recording planned from; empty for a model
  std::string run;      ///< the run predicted
  std::string model;    ///< the recorder's name of the run's model
  std::string program;  ///< ReferenceRun::program_name
  std::string refused;  ///< why nothing could be predicted; the rest is empty then
  /// Whether constants that the prediction uses were fitted on the run (MachineProfile::provenance).
  enum class Seen : std::uint8_t {
    held_out = 0,
    fitted = 1,
    not_stated = 2,  ///< the profile does not say what some constant was fitted on
  };
  Seen seen = Seen::not_stated;
  std::string differs;  ///< what the run did that was not asked of the prediction; the row is in no sum
  bool has_time = false;
  double step_ms = 0;
  double low_ms = 0;  ///< ends of the plan's interval
  double high_ms = 0;
  bool host_bound = false;
  bool host_may_bind = false;  ///< sim::Prediction's
  bool adapted = false;        ///< the recorded kernels are rearranged (sim::Basis::adapted)
  double moved_below = 0;      ///< sim::Interval
  double moved_above = 0;
  bool record_stream = false;  ///< time decides memory
  bool time_known = true;      ///< false: the settings do work that the recording did not time
  bool invented = false;       ///< some segment addresses are the driver model's
  MemoryPeaks peaks;
  MeasuredRun measured;
  std::vector<std::string> warnings;

  [[nodiscard]] double error() const { return step_ms / measured.median_ms - 1; }
  /// How far the step lies outside the run's own range (MeasuredRun::low_ms to high_ms), relative to its end.
  [[nodiscard]] double beyond() const;
  /// Its interval is what is promised, not its error.
  [[nodiscard]] bool of_host() const { return host_bound || host_may_bind; }
  [[nodiscard]] bool exact() const { return refused.empty() && peaks == measured.peaks; }
};

/// Mean and largest absolute value; 0 without any.
struct ErrorSum {
  double sum = 0;
  double worst = 0;
  int count = 0;
  void add(double error);
  [[nodiscard]] double mean() const { return count == 0 ? 0 : sum / count; }
};

/// Settings planned from one recording, whose measured steps differ by more than 3 % and by more than their spread:
/// are they in the right order?
class Rankings {
 public:
  void add(const std::string& from, double predicted_ms, const MeasuredRun& measured);
  [[nodiscard]] int right() const { return right_; }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  struct Entry {
    double predicted_ms;
    MeasuredRun measured;
  };
  std::map<std::string, std::vector<Entry>> by_recording_;
  int right_ = 0;
  int wrong_ = 0;
};

/// One measured collective of the folder's collectives/, and its price.
struct CollectiveRow {
  std::string file;  ///< "comm_nccl_4.json"
  AccuracyRow::Seen seen = AccuracyRow::Seen::not_stated;
  bool by_pytorch = false;  ///< sim::CollectiveSample's
  CollectiveCheck check;
};

/// A recorded run that import refuses.
struct NotImportable {
  std::string run;
  std::string why;
};

struct Accuracy {
  std::string machine;
  std::vector<AccuracyRow> rows;  ///< by from, source, run
  std::vector<NotImportable> not_importable;
  std::vector<CollectiveRow> collectives;
};

struct AccuracyRequest {
  std::string folder;  ///< holds runs/, and collectives/ if there are some
  unsigned threads = 1;
  std::function<void(std::size_t done, std::size_t of)> on_progress = {};
};

/// What the profile's constants of this use saw of `name`: a run, a file, a published table.
[[nodiscard]] AccuracyRow::Seen seen(const sim::MachineProfile& machine, sim::ConstantUse use, std::string_view name);

/// Fails where the folder has no runs or a measurement is wrong. A run that import refuses is listed and left out; a
/// prediction that is refused is a row that says so.
[[nodiscard]] Result<Accuracy> measure_accuracy(const sim::MachineProfile& machine, const AccuracyRequest& request);

/// The prediction of `run`'s settings from a recording, or from its model.
[[nodiscard]] AccuracyRow predict_from_recording(const ReferenceRun& recording, const ReferenceRun& run,
                                                 const sim::MachineProfile& machine,
                                                 const std::optional<sim::HostScale>& host_scale = {});
[[nodiscard]] AccuracyRow predict_from_model(const ReferenceRun& run, const sim::MachineProfile& machine);

/// Rows of collectives/*.json: all-gathers and reduce-scatters measured alone.
[[nodiscard]] Result<std::vector<CollectiveRow>> check_collectives(const std::string& folder,
                                                                   const sim::MachineProfile& machine);

}  // namespace foreshard::accuracy
