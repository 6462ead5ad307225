#include "sim/sweep/offloaded.hpp"

#include <vector>

#include "core/optimizer/optimizer_state.hpp"
#include "core/shard/layout.hpp"

namespace foreshard::sim {

Bytes offloaded_bytes(const Workload& workload, const Settings& settings) {
  const ShardGroup group = shard_dimension(settings);
  Bytes out = 0;
  std::vector<OptimizerParameter> trained;
  for (const Unit& unit : workload.units)
    for (const Parameter& parameter : unit.parameters) {
      const Bytes shard = padded_shard_numel(parameter, group) * itemsize(parameter.dtype);
      out += parameter.requires_grad ? 2 * shard : shard;
      if (parameter.requires_grad)
        trained.push_back({{}, local_shard_numel(parameter, group) * itemsize(parameter.dtype)});
    }
  for (const OptimizerEvent& event : optimizer_events(settings.optimizer, trained, true))
    if (event.allocates && event.is_state()) out += event.bytes;
  return out;
}

}  // namespace foreshard::sim
