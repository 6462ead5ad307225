#include "sim/predict/price_optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/models/fsdp_section_costs.hpp"
#include "core/settings/settings_names.hpp"
#include "core/workload/workload_names.hpp"
#include "sim/compute/prices.hpp"

namespace foreshard::sim {

bool exchanges_optimizer(const Workload& workload, const Settings& wanted) {
  return wanted.optimizer != workload.settings.optimizer && workload.has_timing && !workload.sections.empty();
}

Result<PricedOptimizer> price_optimizer(Workload& workload, const Settings& wanted, const MachineProfile& machine,
                                        double host_scale) {
  const auto unknown = [&](const std::string& why) {  // a reason of the plan, which has no hint: it says what to do
    return fail(ErrorKind::usage,
                fmt::format("the recording's optimizer is {}, and {}: record a step with {}, or plan from a model",
                            name(workload.settings.optimizer), why, name(wanted.optimizer)));
  };
  if (wanted.offload || workload.settings.offload)
    return unknown(fmt::format("what {} takes on the CPU is not in it", name(wanted.optimizer)));
  if (!machine.host_calls_known)
    return unknown(fmt::format("the machine profile {} does not say what launching {} costs the host (/host/calls)",
                               machine.name, name(wanted.optimizer)));
  if (machine.host_calls.program != workload.lowering)
    return unknown(fmt::format("the host times of the machine profile {} are of {}'s program, not of the recording's",
                               machine.name, name(machine.host_calls.program)));
  const Settings have = workload.settings;
  workload.settings = wanted;
  auto cost = model::optimizer_cost(workload, machine.host_calls);
  workload.settings = have;
  FORESHARD_TRY(cost);
  PricedOptimizer priced{{}, cost->host_after};
  const double unscaled = host_scale > 0 ? 1 / host_scale : 1;
  for (SectionItem& item : cost->items) {
    priced.kernels += price(machine, KernelWork{item.kernel_class, item.work, item.bytes, 0, item.label});
    priced.host += item.host_before;
    item.host_before = item.host_before.scaled(unscaled);
  }
  cost->host_after = cost->host_after.scaled(unscaled);
  std::erase_if(workload.sections, [](const SectionCost& one) { return one.section == Section::optimizer; });
  workload.sections.push_back(std::move(*cost));
  return priced;
}

void judge_optimizer(const PredictionSpec& spec, const PricedOptimizer& priced, Prediction& p) {
  if (p.step_ms <= 0) return;
  constexpr double kNoticed = 0.0005;  // of the step: less is not worth naming
  const auto add = [&](Basis basis, double below, double above) {
    if (std::max(below, above) < kNoticed) return;
    p.interval.rests_on.push_back({basis, below, above});
    p.difference = std::hypot(p.difference, std::max(below, above));
  };
  const double kernels = spec.model * priced.kernels.ms() / p.step_ms;
  add(Basis::modelled, kernels, kernels);
  const double host = spec.model_host * priced.host.ms() / p.step_ms;
  if (p.interval.moved_above > 0)
    add(Basis::modelled_host, host * p.interval.moved_below, host * p.interval.moved_above);
}

}  // namespace foreshard::sim
