// What the optimizers of torch.optim allocate and free on the device in one step, in order
// (fsdp2 semantics 6.4; torch/optim/adam.py and sgd.py, PyTorch 2.11).
//
// Pure. Used by core/step to put the optimizer back and by traces/capture to recognise it.
#pragma once

#include <span>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"

namespace foreshard {

/// What one optimizer block is. `state` blocks live for ever.
enum class OptimizerSlot : std::uint8_t { exp_avg = 0, exp_avg_sq = 1, step = 2, sqrt = 3, denominator = 4 };

struct OptimizerEvent {
  bool allocates = true;
  OptimizerSlot slot = OptimizerSlot::exp_avg;
  ParameterId parameter;
  Bytes bytes = 0;

  [[nodiscard]] bool is_state() const { return slot <= OptimizerSlot::step; }
  bool operator==(const OptimizerEvent&) const = default;
};

/// This rank's shard of one parameter, as the optimizer sees it (unpadded).
struct OptimizerParameter {
  ParameterId id;
  Bytes bytes = 0;
  std::uint32_t param_group = 0;  ///< which of Optimizer.param_groups it is in
  DType dtype = DType::float32;
};

/// Events of one `optimizer.step()`; `parameters` in the order of param_groups and of each one's params; empty shards
/// make none. A group is done before the next begins: its states (_init_group), its temporaries, their frees
/// (Adam.step, torch/optim/adam.py, 2.11); in it foreach Adam goes dtype by dtype (foreach_groups.hpp). `first`: states
/// are created. Under CPU offload nothing happens on the device: pass no parameters.
[[nodiscard]] std::vector<OptimizerEvent> optimizer_events(Optimizer optimizer,
                                                           std::span<const OptimizerParameter> parameters, bool first);

}  // namespace foreshard
