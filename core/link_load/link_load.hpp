// What a run's collectives put on the links of one GPU, over time.
//
// sim/link_load works it out from a run and a machine profile, of plans and recordings by one rule; `explain --time`,
// the page and the pictures show it. Plain data and pure functions; deterministic.
//
// A link's load is one direction's, what the GPU sends: in a ring as much comes in. Between a collective's begin and
// its end its bytes are spread evenly, since nothing in a run says how they were: latencies at its begin, and kernels
// beside it, are not seen inside of it. Collectives side by side add up; where that is more than the link carries, what
// is too much is moved to when each of them had the link for itself, or shared it with less. Where that is not enough,
// these collectives and those that overlap them go as early as the link takes them, what ends first before the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/enum_names.hpp"
#include "core/base/quantity.hpp"
#include "core/explain_time/time_explanation.hpp"

namespace foreshard {

/// From the GPU outwards.
enum class LinkClass : std::uint8_t {
  nvlink = 0,   ///< the GPU's own links to the other GPUs of its node …
  pcie = 1,     ///< … or its slot, where there is no NVLink
  adapter = 2,  ///< what the GPU has of its node's adapters
  leaf = 3,     ///< out of its leaf switch, what the GPUs on its rail have of it …
  pod = 4,      ///< … and out of its pod
  group = 5,    ///< of a dragonfly: from its group to the one that most goes to, likewise
};
template <>
struct EnumNames<LinkClass> {
  static constexpr std::array<std::string_view, 6> kNames{"nvlink",      "pcie",       "adapter",
                                                          "leaf-uplink", "pod-uplink", "group-link"};
};
static_assert(names_end_with(LinkClass::group));

/// "NVLink", "leaf uplink": for people.
[[nodiscard]] std::string_view title(LinkClass link);

/// One collective on a link. `bytes` may be more than the GPU's own: those of groups beside it, on uplinks.
struct LinkTransfer {
  Nanoseconds begin;  ///< when its last rank had come, where the run knows that
  Nanoseconds end;
  double bytes = 0;
  std::size_t op = kNoDeviceOp;  ///< in Run::device_ops
};

struct LinkLoad {
  LinkClass link = LinkClass::nvlink;
  double most = 0;                      ///< GB/s that it carries at most
  std::vector<LinkTransfer> transfers;  ///< by begin, then by op
};

struct LinkLoads {
  std::string machine;           ///< name of the profile that they were worked out with
  std::vector<LinkLoad> links;   ///< those that carry something, by class
  std::uint64_t not_placed = 0;  ///< collectives whose process group the run does not tell
};

/// A stretch of one rate above 0.
struct LoadStretch {
  Nanoseconds begin;
  Nanoseconds end;
  double gb_s = 0;
};

/// By time; they do not overlap, and between them nothing moves. What takes no time is in none. A rate is above
/// LinkLoad::most (but for rounding, 1e-9 of it) only where the bytes of the collectives leave no way around it: in
/// some window more of them begin and end than it carries.
[[nodiscard]] std::vector<LoadStretch> load_over_time(const LinkLoad& link);

/// Above this share of what it carries at most a link counts as full.
inline constexpr double kFullLink = 0.9;

/// A link in one step.
struct LinkUse {
  double bytes = 0;
  double mean_gb_s = 0;  ///< over the step
  double peak_gb_s = 0;
  Nanoseconds busy;         ///< something moves
  Nanoseconds full;         ///< of that, at kFullLink or more
  Nanoseconds waited;       ///< the compute stream waits for a collective that uses it (is_communication) …
  Nanoseconds waited_idle;  ///< … while nothing moves on it
};
[[nodiscard]] LinkUse link_use(const LinkLoad& link, const TimeExplanation& step);

}  // namespace foreshard
