#include "core/allocator/allocator_rules.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace foreshard {
namespace {

/// The minor version of "2.x", "2.x.y" or "2.x.y+local".
std::optional<int> minor_version(std::string_view text) {
  if (!text.starts_with("2.")) return std::nullopt;
  text.remove_prefix(2);
  int minor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), minor);
  if (error != std::errc{}) return std::nullopt;
  const bool clean = end == text.data() + text.size() || *end == '.' || *end == '+';
  return clean ? std::optional<int>(minor) : std::nullopt;
}

}  // namespace

Result<AllocatorRules> allocator_rules(std::string_view pytorch) {
  const std::optional<int> minor = minor_version(pytorch);
  if (!minor || *minor < 1 || *minor > 14)
    return fail(ErrorKind::usage, fmt::format("PyTorch version \"{}\" is not known to the caching allocator", pytorch),
                {}, "use 2.1 to 2.14; 2.11 is the one checked against recordings");
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
