// The device addresses of the tensors that belong to each parameter: its shard and the optimizer's states.
#pragma once

#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard {

struct ParameterMemory {
  Address shard = 0;
  Address cast = 0;  ///< its part of the all-gather's input that the optimizer writes; 0: none
  Address exp_avg = 0;
  Address exp_avg_sq = 0;
  Address sqrt = 0;         ///< of this step
  Address denominator = 0;  ///< of this step
};

using ParameterMemories = std::vector<ParameterMemory>;  ///< by ParameterId

}  // namespace foreshard
