#include "core/allocator/allocator_rules.hpp"

#include <fmt/format.h>

#include <optional>

#include "core/settings/pytorch_version.hpp"
#include "core/settings/version_rules.hpp"

namespace foreshard {

Result<AllocatorRules> allocator_rules(std::string_view pytorch) {
  const std::optional<int> minor = pytorch_minor(pytorch);
  const bool known = minor && *minor >= kAllocatorVersions.oldest && *minor <= kAllocatorVersions.newest;
  if (!known && pytorch.substr(0, pytorch.find('~')) != kMainPyTorch)
    return fail(ErrorKind::usage, fmt::format("PyTorch version \"{}\" is not known to the caching allocator", pytorch),
                {},
                fmt::format("use 2.{} to 2.{} or {}; {} is the one checked against recordings",
                            kAllocatorVersions.oldest, kAllocatorVersions.newest, kMainPyTorch, kCheckedPyTorch));
  AllocatorRules rules;
  rules.expandable_in_private_pools = holds(RuleId::expandable_private_pools, pytorch);
  rules.split_by_request = holds(RuleId::split_by_request, pytorch);
  rules.use_on_oom = holds(RuleId::use_on_oom, pytorch);
  rules.shared_parser = holds(RuleId::shared_parser, pytorch);
  rules.preemptive_oom = holds(RuleId::preemptive_oom, pytorch);
  rules.routing_blocks_release = !holds(RuleId::capture_alone_suspends, pytorch);
  rules.ties_by_creation = holds(RuleId::ties_by_creation, pytorch);
  return rules;
}

}  // namespace foreshard
