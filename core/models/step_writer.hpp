// Writes a step's program: microbatches of forward, loss and backward, then the optimizer.
//
// Who: generate.cpp. Pure and deterministic.
#pragma once

#include <vector>

#include "core/models/family.hpp"
#include "core/models/host_calls.hpp"
#include "core/models/target_gpu.hpp"
#include "core/models/trained_model.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::model {

class StepWriter {
 public:
  /// All are kept by reference. Of `settings` it reads those that kLeaveSteps (generate.hpp) does not name.
  StepWriter(const Family& family, const Settings& settings, const TrainedModel& model, const BatchSize& size,
             const HostCosts& host, const std::vector<TensorId>& from_setup)
      : family_(family), settings_(settings), model_(model), size_(size), host_(host), from_setup_(from_setup) {}

  /// The `first` step, or one behind it. `keep_kernels`: with what its kernels compute.
  [[nodiscard]] Program write(Labels& labels, bool first, const TargetGpu& gpu, bool keep_kernels) const;

 private:
  void microbatch(Tape& tape, std::uint32_t index, Tensors& inputs, Tensor& loss) const;
  [[nodiscard]] bool gradients_stay() const;

  const Family& family_;
  const Settings& settings_;
  const TrainedModel& model_;
  const BatchSize& size_;
  const HostCosts& host_;
  const std::vector<TensorId>& from_setup_;
};

}  // namespace foreshard::model
