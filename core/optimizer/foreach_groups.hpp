// How torch.optim groups the tensors of one param_group for its foreach and fused steps
// (Optimizer._group_tensors_by_device_and_dtype; ATen/native/ForeachUtils.h,
// _group_tensors_by_first_tensors_device_and_dtype; PyTorch 2.11). No recording has parameters of two dtypes.
//
// Pure. One rule for the optimizer's memory (optimizer_state.hpp) and its launches (optimizer_passes.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/base/dtype.hpp"

namespace foreshard {

/// Places in `dtypes` of the parameters of each dtype, in order; the dtype that is seen last comes first. PyTorch walks
/// a std::unordered_map that every dtype was put into as it was first seen, and libstdc++ puts a new key at the front:
/// so it is of two dtypes on any device, and of three where no two of them share a bucket.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> foreach_groups(std::span<const DType> dtypes) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    const auto same = [&](const std::vector<std::size_t>& group) { return dtypes[group.front()] == dtypes[i]; };
    const auto at = std::find_if(groups.begin(), groups.end(), same);
    at == groups.end() ? groups.push_back({i}) : at->push_back(i);
  }
  std::reverse(groups.begin(), groups.end());
  return groups;
}

}  // namespace foreshard
