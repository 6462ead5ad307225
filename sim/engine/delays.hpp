// How much later a rank comes to a point than its program says, by what of it is late: of everything that this point
// waited for last, one behind the other since the job began.
//
// Who: sim/engine/engine.hpp finds them for each op of a joint engine, where that is asked for; sim/ranks counts by
// them what held up the rank that others wait for (docs/ranks.md, "What holds the last rank up").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/enum_names.hpp"

namespace foreshard {
namespace sim {

/// What of a rank is late. Values are in files: never renumber.
enum class Resource : std::uint8_t {
  gpu = 0,      ///< kernels and copies took longer
  host = 1,     ///< its own work took longer; while it is blocked, what blocks it counts
  nvlink = 2,   ///< a collective inside a node took longer
  network = 3,  ///< … between nodes
};

}  // namespace sim

template <>
struct EnumNames<sim::Resource> {
  static constexpr std::array<std::string_view, 4> kNames{"gpu", "host", "nvlink", "network"};
};

namespace sim {

inline constexpr std::size_t kResources = kEnumSize<Resource>;

/// ns, by Resource. Less than 0: it took less time than its program says.
struct Delays {
  std::array<std::int64_t, kResources> by{};

  [[nodiscard]] std::int64_t& of(Resource resource) { return by[static_cast<std::size_t>(resource)]; }
  bool operator==(const Delays&) const = default;
};

}  // namespace sim
}  // namespace foreshard
