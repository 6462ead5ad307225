// At whose hook each unit's all-gather is issued, in forward and in backward: what prefetch depths and lists a module
// come to, and the settings that come to an order. So that a search can move one gather.
//
// Who: sim/tune. Pure. The rules are those of core/fsdp/prefetch.hpp (PyTorch 2.11, FSDPParamGroup.pre_forward and
// _backward_prefetch): a gather is issued by the first unit whose list names it, at the latest by its own hook.
#pragma once

#include <cstdint>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"

namespace foreshard::sim {

struct GatherOrder {
  /// By unit, the root (0) left out: at most the unit itself, which is its own hook.
  std::vector<std::uint32_t> forward;
  /// The same; at least the unit itself. Without a list FSDP2 gathers the unit that ran before: 1 more than it.
  std::vector<std::uint32_t> backward;
  bool operator==(const GatherOrder&) const = default;
};

/// The order that `settings` come to. Units that a list names and that do not exist are left out.
[[nodiscard]] GatherOrder gather_order(const Settings& settings, const std::vector<Unit>& units);

/// Sets depths where an order is one depth for all units, else lists a module.
void set_gather_order(const GatherOrder& order, const std::vector<Unit>& units, Settings& settings);

}  // namespace foreshard::sim
