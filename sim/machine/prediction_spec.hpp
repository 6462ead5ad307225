// Section "prediction" of a machine profile: when the host sets a step, what a recording says of its host, and how far
// off a step is to be expected. Every number is a ratio.
//
// Who: sim/machine/read_prediction.cpp reads it, sim/predict uses it. Plain data (docs/model.md, "Calibration").
#pragma once

namespace foreshard::sim {

struct PredictionSpec {
  // Host-bound: the step over one with a host that costs nothing, or host work over that step, is more than this.
  double step_excess = 0;
  double host_share = 0;

  // Host time without a profiler over host time under it.
  double typical_host_scale = 0;  ///< where the launch queue hides the host's own speed
  double least_host_scale = 0;    ///< the search's bounds
  double most_host_scale = 0;
  /// A first step's host time hardly depends on the scale where it changes less than this over half of the scale.
  double insensitive = 0;
  /// A later step whose host time exceeds the first one's by more was waiting for room in the launch queue.
  double throttled_growth = 0;

  // Half widths, as logarithms: nine tenths of the steps that rest on it lie within (sim/predict/interval.hpp).
  double gpu_bound = 0;        ///< recorded kernels: steps that the GPU or its links set
  double adapted = 0;          ///< … rearranged, beyond that
  double model = 0;            ///< kernels of a model
  double model_elsewhere = 0;  ///< a model on what nothing was measured on
  double collectives = 0;      ///< a collective that nothing was measured on, alone
  double retries = 0;          ///< what allocation retries take of a step
  double host_bound = 0;       ///< the host's speed: the recorded process's in another process
  double model_host = 0;       ///< … of a host that is not known
  // The same of the ratio of two plans from one source.
  double difference = 0;
  double difference_host = 0;        ///< of a recording, where the host's speed sets the step
  double difference_model_host = 0;  ///< of a model

  double anchor_range = 0;      ///< a recording's own settings simulate within this of what was measured
  double host_speed_range = 0;  ///< host times differ by as much between steps of one process
};

}  // namespace foreshard::sim
