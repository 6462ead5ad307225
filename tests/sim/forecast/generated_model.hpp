// A preset's program at any settings, as foreshard itself asks for it of a model; made anew each time.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/machine/profile.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim::test {

class GeneratedModel final : public WorkloadSource {
 public:
  /// `machine` must outlive this. Requires: there is such a preset.
  GeneratedModel(std::string_view name, const MachineProfile& machine)
      : model_(preset(name).value()), machine_(machine) {}

  Result<std::shared_ptr<const Workload>> at(const Settings& settings) override {
    auto workload = generate(model_, settings, machine_.host_calls, machine_.gpu());
    FORESHARD_TRY(workload);
    return std::make_shared<const Workload>(std::move(*workload));
  }
  [[nodiscard]] bool one_for_all() const override { return false; }

 private:
  ModelConfig model_;
  const MachineProfile& machine_;
};

}  // namespace foreshard::sim::test
