// Makes optimizer.step()'s allocations and frees (core/optimizer/optimizer_state.hpp) in the run's allocator.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/optimizer/optimizer_state.hpp"
#include "core/shard/layout.hpp"
#include "core/step/parameter_table.hpp"
#include "core/step/step_memory.hpp"

namespace foreshard {

class OptimizerBlocks {
 public:
  /// `memory` must outlive this. Shards on the host, and an optimizer that was not recognised (it stays in the program
  /// as recorded), have no blocks. `of`: the parameters of one group alone; `on`: the stream that the blocks are of.
  OptimizerBlocks(const Workload& workload, const Settings& settings, const ParameterTable& parameters,
                  ShardGroup group, StepMemory& memory, std::optional<ParamGroupId> of = std::nullopt,
                  StreamId on = kComputeStream)
      : optimizer_(settings.optimizer), memory_(memory), on_(on) {
    if (settings.offload || !workload.optimizer_known) return;
    for (const ParameterId id : workload.parameters_order) {
      const Parameter& p = *parameters[id].parameter;
      if (!p.requires_grad || (of && parameters[id].group != *of)) continue;
      parameters_.push_back({id, local_shard_numel(p, group) * itemsize(p.dtype), parameters[id].param_group, p.dtype});
    }
  }

  /// One step's allocations and frees in order. `made(event, block)` hears each block, `before_free(event)` when one is
  /// about to be freed. `first`: the states are made.
  template <class Made, class BeforeFree>
  void step(bool first, Made made, BeforeFree before_free) {
    std::map<std::pair<ParameterId, OptimizerSlot>, BlockHandle> temporaries;
    for (const OptimizerEvent& event : optimizer_events(optimizer_, parameters_, first)) {
      const auto key = std::make_pair(event.parameter, event.slot);
      if (!event.allocates) {
        before_free(event);
        memory_.free(temporaries.at(key));
        continue;
      }
      const MemoryCategory category =
          event.is_state() ? MemoryCategory::optimizer_state : MemoryCategory::optimizer_temporaries;
      const BlockHandle block = memory_.allocate(event.bytes, category, event.parameter, on_);
      if (!event.is_state()) temporaries[key] = block;
      made(event, block);
    }
  }

 private:
  Optimizer optimizer_;
  StepMemory& memory_;
  StreamId on_;
  std::vector<OptimizerParameter> parameters_;  // in the optimizer's order
};

}  // namespace foreshard
