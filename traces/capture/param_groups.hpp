// Which parameters each of the optimizer's param_groups has, where there are several, as its requests of one step show
// it. Pure, deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"
#include "traces/capture/capture_events.hpp"

namespace foreshard::traces {

/// As Workload::parameters_order and optimizer_param_groups have it.
struct ParamGroups {
  std::vector<ParameterId> order;
  std::vector<std::uint32_t> counts;
};

/// `requests`: places in `events` of the optimizer's in one step. `trained`: bytes of each parameter's shard, 0 of a
/// frozen one. Each group is taken to have its parameters in model.parameters() order. None where the requests are not
/// those of two groups or more.
[[nodiscard]] std::optional<ParamGroups> find_param_groups(Optimizer optimizer, std::span<const CaptureEvent> events,
                                                           std::span<const std::uint32_t> requests,
                                                           std::span<const Bytes> trained,
                                                           const std::vector<Unit>& units);

/// Those groups. Parameters in none, frozen ones, follow the last group's.
[[nodiscard]] ParamGroups given_param_groups(const std::vector<std::vector<ParameterId>>& groups,
                                             std::size_t parameters);

}  // namespace foreshard::traces
