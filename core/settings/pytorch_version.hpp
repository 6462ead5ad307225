// PyTorch versions: which are accepted, and which of them each set of rules was read of. The one place that says so.
//
// Who: settings_table.cpp (`--pytorch`), core/allocator/allocator_rules.cpp, core/fsdp/fsdp_rules.cpp, sim/predict
// (what a plan of another version is worth), cli's `--version`. Pure. A rule of another version is added where the rule
// is: AllocatorRules or FsdpRules.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace foreshard {

/// The version that recordings were made with and that every rule was checked against; also the default.
inline constexpr std::string_view kCheckedPyTorch = "2.11";

/// The version whose torch/distributed/fsdp/_fully_shard/ core/fsdp follows. Of another one it follows what FsdpRules
/// tells apart, and a plan is not `valid`.
inline constexpr std::string_view kFsdpSchedule = "2.11";

/// The versions that a plan accepts, oldest first. The oldest has the public torch.distributed.fsdp.fully_shard, the
/// newest is the last whose FSDP2 was read.
inline constexpr std::array<std::string_view, 7> kKnownPyTorch{"2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "2.12"};
inline constexpr std::string_view kKnownPyTorchRange = "2.6 … 2.12";  ///< the same for help and messages

/// The range of versions, 2.OLDEST to 2.NEWEST, whose caching allocator was read (caching allocator 8): wider than what
/// a plan accepts, because a replay of a snapshot needs no FSDP2.
struct AllocatorVersions {
  int oldest = 1;
  int newest = 14;
};
inline constexpr AllocatorVersions kAllocatorVersions;

/// 11 of "2.11", "2.11.0" and "2.11.0+cu130"; nothing where the text is no version 2.x.
[[nodiscard]] std::optional<int> pytorch_minor(std::string_view version);

/// The accepted version that `version` is a release of: "2.11" of "2.11.0+cu130"; nothing where none is.
[[nodiscard]] std::optional<std::string_view> known_pytorch_version(std::string_view version);

/// The accepted version whose number is nearest to that of one which is not: "2.12" of "2.13.0", "2.6" of "1.13";
/// nothing where the text is no version.
[[nodiscard]] std::optional<std::string_view> nearest_pytorch_version(std::string_view version);

}  // namespace foreshard
