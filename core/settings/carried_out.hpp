// Settings as one host program carries them out.
#pragma once

#include <string>
#include <vector>

#include "core/device/transport_choice.hpp"
#include "core/settings/settings.hpp"

namespace foreshard {

/// The settings, by key, that only foreshard's own program has (Lowering::foreshard).
[[nodiscard]] inline std::vector<std::string> of_own_program(const Settings& settings) {
  std::vector<std::string> keys;
  if (settings.all_gather_layout != AllGatherLayout::rank_major) keys.emplace_back("all_gather_layout");
  if (settings.all_gather_input != AllGatherInput::copy_in) keys.emplace_back("all_gather_input");
  if (settings.reduce_scatter_input != ReduceScatterInput::chunk_cat) keys.emplace_back("reduce_scatter_input");
  if (settings.optimizer_overlap != OptimizerOverlap::none) keys.emplace_back("optimizer_overlap");
  if (settings.float8 != Float8::none) keys.emplace_back("float8");
  if (settings.float8_all_gather) keys.emplace_back("float8_all_gather");
  return keys;
}

/// `settings` with the transports whose algorithms a program of this lowering runs where that changes the step itself:
/// foreshard's pull_reduce, in place of PyTorch's low-contention reduce-scatter, sends gradients in their own dtype
/// (ParamGroupPlan::sent). What NCCL does in place of what it is asked for stays a matter of each call
/// (choose_transport).
[[nodiscard]] inline Settings carried_out(Lowering lowering, Settings settings) {
  const Transport runs = algorithm_of(CollectiveKind::reduce_scatter, settings.reduce_scatter, lowering);
  if (outside_nccl(runs)) settings.reduce_scatter = runs;
  return settings;
}

}  // namespace foreshard
