#include "core/allocator/allocator_rules.hpp"

#include <fmt/format.h>

#include <optional>

#include "core/settings/pytorch_version.hpp"

namespace foreshard {

Result<AllocatorRules> allocator_rules(std::string_view pytorch) {
  const std::optional<int> minor = pytorch_minor(pytorch);
  if (!minor || *minor < kAllocatorVersions.oldest || *minor > kAllocatorVersions.newest)
    return fail(ErrorKind::usage, fmt::format("PyTorch version \"{}\" is not known to the caching allocator", pytorch),
                {},
                fmt::format("use 2.{} to 2.{}; {} is the one checked against recordings", kAllocatorVersions.oldest,
                            kAllocatorVersions.newest, kCheckedPyTorch));
  AllocatorRules rules;
  if (*minor < 10) {
    rules.expandable_in_private_pools = *minor >= 5;  // read in 2.4.0 (absent) and 2.11 (present); between: assumed
    rules.split_by_request = *minor >= 5;
    rules.use_on_oom = *minor >= 5;
    rules.shared_parser = false;
  }
  rules.preemptive_oom = *minor >= 12;
  rules.routing_blocks_release = *minor < 13;
  return rules;
}

}  // namespace foreshard
