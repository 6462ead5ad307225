// The allocator's options (PYTORCH_ALLOC_CONF) and the rules that differ between PyTorch versions.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "core/allocator/allocator_rules.hpp"
#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/settings/pytorch_version.hpp"

namespace foreshard {

/// Parsed options; names and defaults of CUDAAllocatorConfig (caching allocator 2.5).
struct AllocatorConfig {
  Bytes max_split_size = std::numeric_limits<Bytes>::max();
  Bytes large_segment_size = 20 * kMiB;
  Bytes max_non_split_rounding = 20 * kMiB;
  std::array<std::uint32_t, 16> roundup_power2_divisions{};  ///< 0: off
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  double per_process_memory_fraction = 1.0;  ///< 1: no limit
  bool throw_on_cudamalloc_oom = false;      ///< 2.12 and later
  AllocatorRules rules;                      ///< the PyTorch version's, not an option
};

/// Parses "key:value,key:value". Unknown keys and values out of range are errors that name the key and
/// suggest the nearest known one. `pytorch` is "2.11" or another version within kAllocatorVersions. Options
/// of the pinned host allocator are checked for their name only; backend:cudaMallocAsync is an error.
[[nodiscard]] Result<AllocatorConfig> parse_alloc_conf(std::string_view text,
                                                       std::string_view pytorch = kCheckedPyTorch);

}  // namespace foreshard
