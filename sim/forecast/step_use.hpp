// What one step of a forecast did to the caching allocator's memory.
//
// Plain data. Who: allocator_process.hpp and what reports a forecast.
#pragma once

#include <cstdint>

#include "core/base/quantity.hpp"

namespace foreshard::sim {

/// The allocator's statistics of one step, as torch.cuda.memory_stats has them behind it when peaks are reset before.
struct StepUse {
  Bytes reserved = 0;       ///< behind the step
  Bytes peak_reserved = 0;  ///< during it
  Bytes peak_allocated = 0;
  std::int32_t retries = 0;   ///< num_alloc_retries during it
  std::int32_t released = 0;  ///< segments that went back to the driver during it (num_device_free)
};

}  // namespace foreshard::sim
