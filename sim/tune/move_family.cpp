#include "sim/tune/move_family.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/settings/settings_table.hpp"

namespace foreshard::sim {
namespace {

/// Of each setting that a search may change.
constexpr std::pair<std::string_view, MoveFamily> kFamilyOf[] = {
    {"forward_prefetch", MoveFamily::prefetch},
    {"backward_prefetch", MoveFamily::prefetch},
    {"prefetch_lists", MoveFamily::prefetch},
    {"unshard_async", MoveFamily::prefetch},
    {"reshard_after_forward", MoveFamily::reshard},
    {"reshard_of_unit", MoveFamily::reshard},
    {"all_gather", MoveFamily::transport},
    {"reduce_scatter", MoveFamily::transport},
    {"all_gather_layout", MoveFamily::transport},
    {"all_gather_input", MoveFamily::transport},
    {"float8_all_gather", MoveFamily::transport},
    {"reduce_scatter_input", MoveFamily::transport},
    {"units_per_group", MoveFamily::units},
    {"fully_shard_embedding_and_head", MoveFamily::units},
    {"separate_reduce_scatter_group", MoveFamily::reduce_scatter},
    {"reduce_scatter_max_input_buffers", MoveFamily::reduce_scatter},
    {"replicate", MoveFamily::mesh},
    {"post_optimizer_event", MoveFamily::post_optimizer_event},
    {"optimizer_overlap", MoveFamily::post_optimizer_event},
    {"checkpoint", MoveFamily::checkpoint},
    {"checkpoint_share", MoveFamily::checkpoint},
    {"offload", MoveFamily::offload},
    {"reduce_dtype", MoveFamily::reduce_dtype},
    {"optimizer", MoveFamily::optimizer},
    {"cuda_graph", MoveFamily::cuda_graph},
    {"batch", MoveFamily::batch},
    {"accumulate", MoveFamily::batch},
    {"release", MoveFamily::release},
    {"gather_alloc", MoveFamily::release},
    {"alloc_conf", MoveFamily::alloc_conf},
};

std::optional<MoveFamily> family_of(std::string_view key) {
  const auto* found =
      std::find_if(std::begin(kFamilyOf), std::end(kFamilyOf), [&](const auto& row) { return row.first == key; });
  return found == std::end(kFamilyOf) ? std::nullopt : std::optional(found->second);
}

}  // namespace

MoveFamilies changed_families(const Settings& from, const Settings& to) {
  MoveFamilies out;
  const auto before = setting_options(from);
  const auto after = setting_options(to);
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (after[i] == before[i]) continue;
    const auto family = family_of(after[i].first);
    family ? out.set(*family, true) : out.add_fixed();
  }
  return out;
}

bool same_samples(const Settings& a, const Settings& b) {
  const auto samples = [](const Settings& s) { return std::uint64_t{s.batch.value_or(1)} * s.accumulate; };
  return samples(a) == samples(b);
}

void forget_units(Settings& settings) {
  settings.prefetch_lists = {};
  settings.reshard_of_unit.clear();
}

Settings with_family_of(const Settings& from, MoveFamily family, const Settings& to) {
  Settings out = to;
  for (const auto& [key, value] : setting_options(from))
    // A value that was written is one that can be read.
    if (family_of(key) == family) static_cast<void>(set_setting(out, key, value));
  if (family == MoveFamily::units && out != to) forget_units(out);
  return out;
}

std::string text_of(const Settings& settings) {
  std::string out;
  for (const auto& [key, value] : setting_options(settings)) out += value + '\n';
  return out;
}

std::string class_of(const Settings& settings) {
  Settings other = settings;
  other.forward_prefetch.reset();
  other.backward_prefetch.reset();
  other.prefetch_lists = {};
  return text_of(other);
}

}  // namespace foreshard::sim
