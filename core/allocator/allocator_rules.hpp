// What differs between PyTorch versions in the caching allocator's behaviour (caching allocator 8).
// One plain value, made of core/settings/version_rules.hpp, which has each rule's source: the allocator asks it, never
// a version number.
#pragma once

#include <string_view>

#include "core/base/error.hpp"

namespace foreshard {

/// Defaults are those of 2.11 (c10/cuda/CUDACachingAllocator.cpp).
struct AllocatorRules {
  /// Private pools without a custom allocator use expandable segments (2.4: never).
  bool expandable_in_private_pools = true;
  /// should_split asks whether this request may grow an expandable segment; 2.4 asks the option alone.
  bool split_by_request = true;
  /// Pools flagged use_on_oom are searched before any cached memory is released.
  bool use_on_oom = true;
  /// While an allocation is routed to a private pool no event is polled and no cache released
  /// (2.11: captures_underway is not empty). From 2.13 only a real graph capture does that.
  bool routing_blocks_release = true;
  /// throw_on_cudamalloc_oom exists (2.12 and later).
  bool preemptive_oom = false;
  /// Of free blocks of one size that of the segment made first is taken (2.13 and later); before, the one with the
  /// lowest address. Segments that were adopted count as made in the order of adoption.
  bool ties_by_creation = false;
  /// large_segment_size_mb, max_non_split_rounding_mb and per_process_memory_fraction exist (2.10 and later).
  bool shared_parser = true;

  bool operator==(const AllocatorRules&) const = default;
};

/// The rules of a version within kAllocatorVersions (core/settings/pytorch_version.hpp); a patch number or "+cu130" may
/// follow. Other versions are an error (usage).
[[nodiscard]] Result<AllocatorRules> allocator_rules(std::string_view pytorch);

}  // namespace foreshard
