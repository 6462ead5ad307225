#include "sim/predict/price_sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/models/fsdp_section_costs.hpp"
#include "core/settings/settings_names.hpp"
#include "core/workload/workload_names.hpp"
#include "sim/compute/prices.hpp"

namespace foreshard::sim {
namespace {

/// Of a reduction, what is not the same over one rank as over several.
bool is_of_shard_group(const SectionItem& item) {
  return item.role == SectionRole::collective || item.role == SectionRole::copy_reduced;
}

bool has_role(const Workload& workload, SectionRole role) {
  const auto is = [role](const SectionItem& item) { return item.role == role; };
  return std::any_of(workload.sections.begin(), workload.sections.end(), [&](const SectionCost& cost) {
    return cost.section == Section::reduce && std::any_of(cost.items.begin(), cost.items.end(), is);
  });
}

/// Of sections that are exchanged: prices them, and keeps their host times from being scaled.
class Pricing {
 public:
  Pricing(const MachineProfile& machine, double host_scale)
      : machine_(machine), unscaled_(host_scale > 0 ? 1 / host_scale : 1) {}

  /// Counts an item that runs `times` a step.
  void add(SectionItem& item, std::uint32_t times) {
    const bool copy = item.role == SectionRole::offload_copy || item.role == SectionRole::metadata_copy;
    const Nanoseconds work =
        copy ? price(machine_, CopyWork{CopyKind::host_to_device, item.bytes, item.work, item.label})
             : price(machine_, KernelWork{item.kernel_class, item.work, item.bytes, 0, item.label});
    if (item.role != SectionRole::collective) priced_.kernels += Nanoseconds{work.count * times};
    host(item.host_before, times);
  }
  void host(Nanoseconds& time, std::uint32_t times) {
    priced_.host += Nanoseconds{time.count * times};
    time = time.scaled(unscaled_);
  }
  void add(SectionCost& cost, std::uint32_t times) {
    for (SectionItem& item : cost.items) add(item, times);
    host(cost.host_after, times);
  }
  void warn(std::string what) { priced_.warnings.push_back(std::move(what)); }
  [[nodiscard]] PricedSections take() { return std::move(priced_); }

 private:
  const MachineProfile& machine_;
  double unscaled_;
  PricedSections priced_;
};

/// `have`, with those items of `wanted` that its shard group decides about.
void exchange_reduction(SectionCost& have, SectionCost wanted, Pricing& pricing) {
  auto at = std::find_if(have.items.begin(), have.items.end(), is_of_shard_group);
  if (at == have.items.end()) return;
  const auto place = at - have.items.begin();
  std::erase_if(have.items, is_of_shard_group);
  std::erase_if(wanted.items, [](const SectionItem& item) { return !is_of_shard_group(item); });
  for (SectionItem& item : wanted.items) pricing.add(item, 1);
  have.items.insert(have.items.begin() + place, wanted.items.begin(), wanted.items.end());
}

void exchange_copies(Workload& workload, std::vector<SectionCost> made, const Settings& wanted, Pricing& pricing) {
  const auto gathers = [](const SectionCost& cost) {
    return cost.section == Section::all_gather || cost.section == Section::copy_out;
  };
  std::erase_if(workload.sections, gathers);
  std::map<std::pair<UnitId, std::uint32_t>, SectionCost*> reductions;
  for (SectionCost& cost : workload.sections)
    if (cost.section == Section::reduce) reductions[{cost.unit, cost.group}] = &cost;
  std::vector<SectionCost> added;
  for (SectionCost& cost : made) {
    if (cost.section == Section::reduce) {
      if (const auto have = reductions.find({cost.unit, cost.group}); have != reductions.end())
        exchange_reduction(*have->second, std::move(cost), pricing);
    } else if (gathers(cost) && (cost.section == Section::copy_out || wanted.shard_ranks() > 1)) {
      pricing.add(cost, wanted.accumulate);
      added.push_back(std::move(cost));
    }
  }
  workload.sections.insert(workload.sections.end(), added.begin(), added.end());
}

/// HSDP's all-reduces behind the reductions: the host's time to issue them.
void add_all_reduces(Workload& workload, const std::vector<SectionCost>& made, Pricing& pricing) {
  std::map<std::pair<UnitId, std::uint32_t>, SectionItem> issued;
  for (const SectionCost& cost : made)
    for (const SectionItem& item : cost.items)
      if (cost.section == Section::reduce && item.role == SectionRole::all_reduce)
        issued[{cost.unit, cost.group}] = item;
  for (SectionCost& cost : workload.sections) {
    const auto found = issued.find({cost.unit, cost.group});
    if (cost.section != Section::reduce || found == issued.end()) continue;
    SectionItem item = found->second;
    pricing.add(item, 1);
    const auto last = std::find_if(cost.items.rbegin(), cost.items.rend(), is_of_shard_group);
    cost.items.insert(last.base(), item);
  }
}

/// Why what `workload` has no times of cannot be priced; empty: it can.
std::string not_priced(const Workload& workload, const MachineProfile& machine, const std::string& what) {
  if (!machine.host_calls_known)
    return fmt::format("the machine profile {} does not say what {} costs the host (/host/calls)", machine.name, what);
  if (machine.host_calls.program != workload.lowering)
    return fmt::format("the host times of the machine profile {} are of {}'s program, not of the recording's",
                       machine.name, name(machine.host_calls.program));
  return {};
}

/// Those of a model of these units at `wanted`.
Result<std::vector<SectionCost>> sections_of(Workload& workload, const Settings& wanted,
                                             const MachineProfile& machine) {
  const Settings settings = std::exchange(workload.settings, wanted);
  auto made = model::section_costs(workload, machine.host_calls);
  workload.settings = settings;
  return made;
}

/// A reason of the plan, which has no hint: it says what to do.
tl::unexpected<Error> unknown(const std::string& have, const std::string& why, const std::string& record) {
  return fail(ErrorKind::usage, fmt::format("the recording's {}, and {}: record a step with {}, or plan from a model",
                                            have, why, record));
}

Result<void> price_optimizer(Workload& workload, const Settings& wanted, const MachineProfile& machine,
                             Pricing& pricing) {
  const std::string have = fmt::format("optimizer is {}", name(workload.settings.optimizer));
  const std::string record(name(wanted.optimizer));
  if (wanted.offload || workload.settings.offload)
    return unknown(have, fmt::format("what {} takes on the CPU is not in it", record), record);
  if (const std::string why = not_priced(workload, machine, "launching " + record); !why.empty())
    return unknown(have, why, record);
  const Settings settings = std::exchange(workload.settings, wanted);
  auto cost = model::optimizer_cost(workload, machine.host_calls);
  workload.settings = settings;
  FORESHARD_TRY(cost);
  pricing.add(*cost, 1);
  std::erase_if(workload.sections, [](const SectionCost& one) { return one.section == Section::optimizer; });
  workload.sections.push_back(std::move(*cost));
  pricing.warn(
      fmt::format("the optimizer's kernels and the host's time for them are priced by profile {}, as "
                  "those of a model: the recording's are {}'s",
                  machine.name, name(settings.optimizer)));
  return {};
}

Result<void> price_shard_copies(Workload& workload, const Settings& wanted, const MachineProfile& machine,
                                Pricing& pricing) {
  const bool one = wanted.shard_ranks() == 1;
  const std::string have = one ? fmt::format("shard group has {} ranks", workload.settings.shard_ranks())
                               : "shard group is one rank, which gathers and reduces nothing";
  if (const std::string why = not_priced(workload, machine, one ? "copying each parameter" : "issuing all-gathers");
      !why.empty())
    return unknown(have, why, one ? "one GPU" : "several GPUs");
  auto made = sections_of(workload, wanted, machine);
  FORESHARD_TRY(made);
  exchange_copies(workload, std::move(*made), wanted, pricing);
  pricing.warn(fmt::format(
      "FSDP2's copies around {} and the host's time for them are priced by profile {}, as those of a model: the "
      "recording's {}",
      one ? "parameters and gradients of one rank" : "all-gathers and reduce-scatters", machine.name, have));
  return {};
}

}  // namespace

bool exchanges_optimizer(const Workload& workload, const Settings& wanted) {
  return wanted.optimizer != workload.settings.optimizer && workload.has_timing && !workload.sections.empty();
}

bool exchanges_shard_copies(const Workload& workload, const Settings& wanted) {
  const bool one = wanted.shard_ranks() == 1;
  if (!workload.has_timing || workload.sections.empty() || (workload.settings.shard_ranks() == 1) == one) return false;
  return !has_role(workload, one ? SectionRole::copy_reduced : SectionRole::collective);
}

bool adds_all_reduces(const Workload& workload, const Settings& wanted) {
  return wanted.replicate > 1 && workload.has_timing && !has_role(workload, SectionRole::all_reduce) &&
         (has_role(workload, SectionRole::collective) || has_role(workload, SectionRole::copy_reduced));
}

bool exchanges_sections(const Workload& workload, const Settings& wanted) {
  return exchanges_optimizer(workload, wanted) || exchanges_shard_copies(workload, wanted) ||
         adds_all_reduces(workload, wanted);
}

Result<PricedSections> price_sections(Workload& workload, const Settings& wanted, const MachineProfile& machine,
                                      double host_scale) {
  Pricing pricing(machine, host_scale);
  const bool copies = exchanges_shard_copies(workload, wanted);
  if (exchanges_optimizer(workload, wanted)) FORESHARD_TRY(price_optimizer(workload, wanted, machine, pricing));
  if (copies) FORESHARD_TRY(price_shard_copies(workload, wanted, machine, pricing));
  if (adds_all_reduces(workload, wanted) && not_priced(workload, machine, {}).empty()) {
    const auto made = sections_of(workload, wanted, machine);
    FORESHARD_TRY(made);
    add_all_reduces(workload, *made, pricing);
  }
  return pricing.take();
}

void judge_sections(const PredictionSpec& spec, const PricedSections& priced, Prediction& p) {
  if (p.step_ms <= 0) return;
  constexpr double kNoticedSections = 0.0005;  // of the step: less is not worth naming
  const auto add = [&](Basis basis, double below, double above) {
    if (std::max(below, above) < kNoticedSections) return;
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
