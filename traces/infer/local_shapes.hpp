// The local shapes of DTensor parameters in a recording with tensor parallelism.
//
// FSDP2 shards the local tensor of a parameter that parallelize_module made a DTensor (FSDPParam._init_sharded_param,
// 2.11); named_parameters() shows its global shape, and so do about files. The first unshard settles which it is: the
// outputs of FSDP::all_gather_copy_out are the local tensors, in order (foreach_all_gather_copy_out).
#pragma once

#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"
#include "traces/infer/recorded_units.hpp"

namespace foreshard::traces {

/// Replaces global by local shapes: of the dimensions whose division by settings.tensor_parallel gives the recorded
/// size, the first; a shape that fits as it is stays. Units whose unshard is not in `recorded` keep theirs. Does
/// nothing without tensor parallelism. Fails with ErrorKind::mismatch where no division fits.
[[nodiscard]] Result<void> set_local_shapes(std::vector<Unit>& units, const Settings& settings,
                                            std::span<const RecordedUnit> recorded);

}  // namespace foreshard::traces
