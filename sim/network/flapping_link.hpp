// A link whose capacity changes over time: down, or slower, for a while out of each period.
//
// Who: sim/ranks/job_network.hpp, whose flows run at what is there at each instant; `plan` reads it from
// --flapping-adapter and --flapping-uplinks. Pure; integer time.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "sim/network/slow_links.hpp"

namespace foreshard::sim {

struct FlappingLink {
  enum class Kind : std::uint8_t {
    adapter,  ///< out and in
    uplinks,  ///< of a leaf switch, to those above it and back: all of them, of each rail
  };
  Kind kind = Kind::adapter;
  std::uint32_t place = 0;    ///< the node, or the leaf switch
  std::uint32_t adapter = 0;  ///< of the node
  Nanoseconds down;           ///< so long out of each …
  Nanoseconds period;         ///< … of these, which is longer
  double left = 0;            ///< share of what it carries that is left meanwhile; below 1
  bool operator==(const FlappingLink&) const = default;
};

/// One that is down from `phase` on, and from each whole period before and behind that.
struct Flap {
  FlappingLink link;
  Nanoseconds phase;

  [[nodiscard]] bool is_down(Nanoseconds at) const;
  /// The first instant behind `at` at which that changes; the largest there is where it never does: one that is down
  /// for no time.
  [[nodiscard]] Nanoseconds next_change(Nanoseconds at) const;
};

/// "adapter 1.3", "the uplinks of leaf switch 0".
[[nodiscard]] std::string words(const FlappingLink& link);

/// How long InfiniBand's transport tries before NCCL raises a network error, which ends the job: 7 retries
/// (NCCL_IB_RETRY_CNT) of 4.096 us · 2^20 (NCCL_IB_TIMEOUT, since NCCL 2.23). NCCL's user guide, Environment Variables.
inline constexpr Nanoseconds kTransportTimeout{4096LL << 20};
inline constexpr Nanoseconds kTransportGivesUp{7 * kTransportTimeout.count};

/// Whether the job ends by that: a link that carries nothing for so long.
[[nodiscard]] inline bool ends_job(const FlappingLink& link) {
  return link.left == 0 && link.down >= kTransportGivesUp;
}

/// Errors (usage): a link that the job does not use.
[[nodiscard]] Result<void> check_flapping_link(const UsedNodes& used, const FlappingLink& link);

}  // namespace foreshard::sim
