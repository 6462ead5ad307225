// For how long ranks wait for one that comes last to a collective, by what of it held it up.
//
// Who: sim/ranks/job.hpp and trials.hpp; sim/predict and cli tell it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/enum_names.hpp"
#include "core/base/quantity.hpp"

namespace foreshard {
namespace sim {

/// What of the last rank held it up (docs/ranks.md, "What holds the last rank up"). Values are in files: never
/// renumber.
enum class Resource : std::uint8_t {
  gpu = 0,      ///< kernels and copies before the collective
  host = 1,     ///< had not issued it, or the kernel that it waited for
  nvlink = 2,   ///< a collective inside a node ended then
  network = 3,  ///< … between nodes
};

}  // namespace sim

template <>
struct EnumNames<sim::Resource> {
  static constexpr std::array<std::string_view, 4> kNames{"gpu", "host", "nvlink", "network"};
};

namespace sim {

inline constexpr std::size_t kResources = kEnumSize<Resource>;

struct Awaited {
  std::array<Nanoseconds, kResources> by;  ///< Resource; each at most INT64_MAX

  [[nodiscard]] Nanoseconds& of(Resource resource) { return by[static_cast<std::size_t>(resource)]; }
  [[nodiscard]] Nanoseconds of(Resource resource) const { return by[static_cast<std::size_t>(resource)]; }
  /// At most INT64_MAX.
  [[nodiscard]] Nanoseconds all() const {
    Nanoseconds out;
    for (const Nanoseconds one : by) add(out, one);
    return out;
  }
  /// What most of it is due to; of equal ones the first.
  [[nodiscard]] Resource most() const {
    return static_cast<Resource>(std::max_element(by.begin(), by.end()) - by.begin());
  }
  Awaited& operator+=(const Awaited& other) {
    for (std::size_t i = 0; i < kResources; ++i) add(by[i], other.by[i]);
    return *this;
  }
  bool operator==(const Awaited&) const = default;

 private:
  static void add(Nanoseconds& sum, Nanoseconds one) {
    if (__builtin_add_overflow(sum.count, one.count, &sum.count)) sum.count = INT64_MAX;
  }
};

/// That each of `ranks` ranks waits so long for one whose collective `late` held up. Where that was its host, as far as
/// it issued the collective later than theirs did (`issued_later`); the rest is its GPU's, whose kernels took longer.
[[nodiscard]] inline Awaited awaited_by(Resource late, Nanoseconds wait, Nanoseconds issued_later,
                                        std::uint32_t ranks) {
  const auto of_all = [ranks](Nanoseconds one) {
    std::int64_t out = 0;
    return __builtin_mul_overflow(one.count, std::int64_t{ranks}, &out) ? Nanoseconds{INT64_MAX} : Nanoseconds{out};
  };
  Awaited out;
  const Nanoseconds by_late = late == Resource::host ? std::clamp(issued_later, Nanoseconds{}, wait) : wait;
  out.of(late) = of_all(by_late);
  if (by_late < wait) out.of(Resource::gpu) = of_all(wait - by_late);
  return out;
}

}  // namespace sim
}  // namespace foreshard
