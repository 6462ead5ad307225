#include "accuracy/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "core/models/generate.hpp"
#include "core/workload/pytorch_costs.hpp"
#include "sim/parallel/for_each.hpp"

namespace foreshard::accuracy {
namespace {

constexpr std::int32_t kRecordedSteps = 4;  // the peaks of a reference run are those of its fourth step, or of the last
                                            // where its steps differ

void fill(const sim::Prediction& p, AccuracyRow& row) {
  if (p.out_of_memory || p.deadlock) {
    row.refused = p.deadlock ? "the plan deadlocks" : "the plan is out of memory";
    return;
  }
  row.has_time = p.has_time;
  row.step_ms = p.step_ms;
  row.low_ms = p.interval.low_ms;
  row.high_ms = p.interval.high_ms;
  row.moved_below = p.interval.moved_below;
  row.moved_above = p.interval.moved_above;
  row.adapted = std::any_of(p.interval.rests_on.begin(), p.interval.rests_on.end(),
                            [](const sim::RestsOn& part) { return part.basis == sim::Basis::adapted; });
  row.host_bound = p.host_bound;
  row.host_may_bind = p.host_may_bind;
  row.time_known = p.valid;
  row.invented = p.addresses_invented;
  row.peaks = p.peaks;
  row.warnings = p.warnings;
}

void fill(const Result<sim::Prediction>& p, AccuracyRow& row) {
  if (p)
    fill(*p, row);
  else
    row.refused = p.error().what;
}

/// Memory is that of the run's recorded steps; its times may be of replays behind them (ReferenceRun::graph).
Result<sim::Prediction> predict_run(const Workload& workload, const sim::MachineProfile& machine,
                                    const sim::PredictRequest& request, const std::optional<CudaGraph>& graph) {
  auto recorded = sim::predict(workload, machine, request);
  if (!recorded || !graph) return recorded;
  sim::PredictRequest replays = request;
  replays.settings.cuda_graph = graph;
  auto replayed = sim::predict(workload, machine, replays);
  FORESHARD_TRY(replayed);
  replayed->peaks = recorded->peaks;
  replayed->addresses_invented = recorded->addresses_invented;
  return replayed;
}

AccuracyRow row_of(AccuracyRow::From from, const std::string& source, const ReferenceRun& run,
                   const sim::MachineProfile& machine) {
  const bool model = from == AccuracyRow::From::model;
  AccuracyRow row;
  row.from = from;
  row.source = source;
  row.run = run.name;
  row.model = run.model_name;
  row.program = run.program_name;
  row.seen = seen(machine, model ? sim::ConstantUse::model : sim::ConstantUse::recording, run.name);
  if (model) row.differs = run.beyond_model;
  row.record_stream = sim::records_streams(run.workload, run.workload.settings);
  row.measured = run.measured;
  return row;
}

/// Runs read, calibrated, and predicted, each kind of work spread over the threads.
class Measurer {
 public:
  Measurer(const sim::MachineProfile& machine, const AccuracyRequest& request) : machine_(machine), request_(request) {}

  Result<Accuracy> run() {
    const std::string folder = request_.folder + "/runs";
    const auto names = reference_run_names(folder);
    FORESHARD_TRY(names);
    if (names->empty()) return fail(ErrorKind::input, "has no runs (NAME.pickle.xz with NAME.json)", folder);
    FORESHARD_TRY(read(folder, *names));
    find_pairs();
    predict();
    Accuracy accuracy;
    accuracy.machine = machine_.name;
    accuracy.rows = std::move(rows_);
    for (const ReferenceRun& run : runs_)
      if (!run.not_importable.empty()) accuracy.not_importable.push_back({run.name, run.not_importable});
    auto collectives = check_collectives(request_.folder + "/collectives", machine_);
    FORESHARD_TRY(collectives);
    accuracy.collectives = std::move(*collectives);
    return accuracy;
  }

 private:
  Result<void> read(const std::string& folder, const std::vector<std::string>& names) {
    std::vector<std::optional<Error>> errors(names.size());
    runs_.resize(names.size());
    host_scales_.resize(names.size());
    sim::for_each(
        names.size(), request_.threads,
        [&](std::size_t i) {
          auto run = read_reference_run(folder, names[i]);
          if (!run) {
            errors[i] = run.error();
            return;
          }
          runs_[i] = std::move(*run);
          if (!runs_[i].not_importable.empty()) return;
          if (auto found = sim::find_host_scale(runs_[i].workload, machine_)) host_scales_[i] = *found;
        },
        [&](std::size_t done) { progress(done, 2 * names.size()); });
    for (const auto& error : errors)
      if (error) return tl::unexpected(*error);
    return {};
  }

  void find_pairs() {
    using From = AccuracyRow::From;
    std::vector<std::size_t> known;
    for (std::size_t i = 0; i < runs_.size(); ++i)
      if (runs_[i].not_importable.empty()) known.push_back(i);
    for (const std::size_t i : known) pairs_.push_back({From::itself, i, i});
    for (const std::size_t from : known)
      for (const std::size_t to : known)
        if (from != to && runs_[from].program == runs_[to].program) pairs_.push_back({From::sibling, from, to});
    for (const std::size_t i : known) pairs_.push_back({From::model, i, i});
  }

  void predict() {
    rows_.resize(pairs_.size());
    sim::for_each(
        pairs_.size(), request_.threads,
        [&](std::size_t i) {
          const Pair& pair = pairs_[i];
          const ReferenceRun& run = runs_[pair.to];
          rows_[i] = pair.kind == AccuracyRow::From::model
                         ? predict_from_model(run, machine_)
                         : predict_from_recording(runs_[pair.from], run, machine_, host_scales_[pair.from]);
        },
        [&](std::size_t done) { progress(pairs_.size() + done, 2 * pairs_.size()); });
  }

  void progress(std::size_t done, std::size_t of) const {
    if (request_.on_progress) request_.on_progress(done, of);
  }

  struct Pair {
    AccuracyRow::From kind;
    std::size_t from;
    std::size_t to;
  };
  const sim::MachineProfile& machine_;
  const AccuracyRequest& request_;
  std::vector<ReferenceRun> runs_;
  std::vector<std::optional<sim::HostScale>> host_scales_;
  std::vector<Pair> pairs_;
  std::vector<AccuracyRow> rows_;
};

}  // namespace

double AccuracyRow::beyond() const {
  return std::max({0.0, 1 - step_ms / measured.low_ms, step_ms / measured.high_ms - 1});
}

void ErrorSum::add(double error) {
  sum += std::abs(error);
  worst = std::max(worst, std::abs(error));
  ++count;
}

void Rankings::add(const std::string& from, double predicted_ms, const MeasuredRun& measured) {
  constexpr double kApart = 1.03;
  const auto apart = [](const MeasuredRun& slow, const MeasuredRun& fast) {
    return slow.median_ms > kApart * fast.median_ms && slow.low_ms > fast.high_ms;
  };
  std::vector<Entry>& entries = by_recording_[from];
  for (const Entry& other : entries) {
    const bool slower = apart(measured, other.measured);
    if (!slower && !apart(other.measured, measured)) continue;
    (slower == (predicted_ms > other.predicted_ms) ? right_ : wrong_) += 1;
  }
  entries.push_back({predicted_ms, measured});
}

AccuracyRow::Seen seen(const sim::MachineProfile& machine, sim::ConstantUse use, std::string_view name) {
  auto seen = sim::seen_by(machine.provenance, use);
  if (use != sim::ConstantUse::collective)
    for (const PyTorchCost& cost : pytorch_costs::kAll)
      for (const sim::Measurement& measurement : machine.provenance.measurements)
        if (measurement.name == cost.fitted_on) seen.insert(measurement.of.begin(), measurement.of.end());
  if (seen.contains(name)) return AccuracyRow::Seen::fitted;
  return sim::stated(machine.provenance, use) ? AccuracyRow::Seen::held_out : AccuracyRow::Seen::not_stated;
}

AccuracyRow predict_from_recording(const ReferenceRun& recording, const ReferenceRun& run,
                                   const sim::MachineProfile& machine,
                                   const std::optional<sim::HostScale>& host_scale) {
  using From = AccuracyRow::From;
  AccuracyRow row = row_of(recording.name == run.name ? From::itself : From::sibling, recording.name, run, machine);
  fill(predict_run(recording.workload, machine, {run.workload.settings, {}, kRecordedSteps, host_scale}, run.graph),
       row);
  return row;
}

AccuracyRow predict_from_model(const ReferenceRun& run, const sim::MachineProfile& machine) {
  AccuracyRow row = row_of(AccuracyRow::From::model, {}, run, machine);
  if (!run.model || !machine.host_calls_known) {
    row.refused = run.model ? "the machine profile has no host costs" : "no preset or family stands for its model";
    return row;
  }
  Settings settings = run.workload.settings;
  if (!settings.seq) settings.seq = run.model->default_seq;
  const auto workload = generate(*run.model, settings, machine.host_calls, machine.gpu());
  if (!workload)
    row.refused = workload.error().what;
  else
    fill(predict_run(*workload, machine, {workload->settings, {}, kRecordedSteps}, run.graph), row);
  return row;
}

Result<Accuracy> measure_accuracy(const sim::MachineProfile& machine, const AccuracyRequest& request) {
  return Measurer(machine, request).run();
}

}  // namespace foreshard::accuracy
