// PyTorch versions: which are accepted, and which of them each set of rules was read of. The one place that says so.
//
// Who: settings_table.cpp (`--pytorch`), version_rules.cpp, core/allocator/allocator_rules.cpp, sim/predict (what a
// plan of another version is worth), cli's `--version`. Pure. What differs between versions: version_rules.hpp.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace foreshard {

/// The version that recordings were made with and that every rule was checked against; also the default.
inline constexpr std::string_view kCheckedPyTorch = "2.11";

/// The version whose torch/distributed/fsdp/_fully_shard/ core/fsdp was written from and the oldest that it follows in
/// full. Of a later one it follows the rules of version_rules.hpp; of an older one not all differences are known, and a
/// plan is not `valid`.
inline constexpr std::string_view kFsdpSchedule = "2.11";

/// The development branch, as read at kMainRead; it comes behind every release, as version 2.kMainMinor would.
inline constexpr std::string_view kMainPyTorch = "main";
inline constexpr std::string_view kMainRead = "September 2026";
inline constexpr int kMainMinor = 15;

/// The versions that a plan accepts, oldest first. The oldest has the public torch.distributed.fsdp.fully_shard.
inline constexpr std::array<std::string_view, 10> kKnownPyTorch{"2.6",  "2.7",  "2.8",  "2.9",  "2.10",
                                                                "2.11", "2.12", "2.13", "2.14", kMainPyTorch};
inline constexpr std::string_view kKnownPyTorchRange = "2.6 … 2.14, main";  ///< the same for help and messages

/// The range of versions, 2.OLDEST to 2.NEWEST and main, whose caching allocator was read (caching allocator 8): wider
/// than what a plan accepts, because a replay of a snapshot needs no FSDP2.
struct AllocatorVersions {
  int oldest = 1;
  int newest = 14;
};
inline constexpr AllocatorVersions kAllocatorVersions;

/// 11 of "2.11", "2.11.0" and "2.11.0+cu130", kMainMinor of "main" ("~RULE" may follow, version_rules.hpp);
/// nothing where the text is no version 2.x.
[[nodiscard]] std::optional<int> pytorch_minor(std::string_view version);

/// As a plan takes it: "2.13" of 13, "main" of kMainMinor.
[[nodiscard]] std::string version_name(int minor);

/// The accepted version that `version` is a release of, without its "~RULE": "2.11" of "2.11.0+cu130"; nothing where
/// none is.
[[nodiscard]] std::optional<std::string_view> known_pytorch_version(std::string_view version);

/// The accepted version whose number is nearest to that of one which is not: "main" of "2.15.0", "2.6" of "1.13";
/// nothing where the text is no version.
[[nodiscard]] std::optional<std::string_view> nearest_pytorch_version(std::string_view version);

}  // namespace foreshard
