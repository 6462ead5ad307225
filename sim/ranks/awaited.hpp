// For how long ranks wait for one that comes last to a collective, by what of it held it up.
//
// Who: sim/ranks/job.hpp and trials.hpp; sim/predict and cli tell it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "core/base/quantity.hpp"
#include "sim/engine/delays.hpp"

namespace foreshard::sim {

/// Sums at most INT64_MAX.
struct Awaited {
  Nanoseconds all;
  std::array<Nanoseconds, kResources> by;  ///< Resource: its parts, or all 0 where nobody asked for them

  [[nodiscard]] Nanoseconds of(Resource resource) const { return by[static_cast<std::size_t>(resource)]; }
  /// What most of it is due to; of equal ones the first.
  [[nodiscard]] Resource most() const {
    return static_cast<Resource>(std::max_element(by.begin(), by.end()) - by.begin());
  }
  Awaited& operator+=(const Awaited& other) {
    add(all, other.all);
    for (std::size_t i = 0; i < kResources; ++i) add(by[i], other.by[i]);
    return *this;
  }
  bool operator==(const Awaited&) const = default;

 private:
  static void add(Nanoseconds& sum, Nanoseconds one) {
    if (__builtin_add_overflow(sum.count, one.count, &sum.count)) sum.count = INT64_MAX;
  }
};

/// That each of `ranks` ranks waits so long for another one, whatever of that is late.
[[nodiscard]] inline Awaited awaited_for(Nanoseconds wait, std::uint32_t ranks) {
  Awaited out;
  if (__builtin_mul_overflow(wait.count, std::int64_t{ranks}, &out.all.count)) out.all = {INT64_MAX};
  return out;
}

/// … for one whose delays are `last`, theirs being `own`: in parts of what those are above these. Where none is, both
/// may be ahead of their programs, the last one by less than it would have to be: that counts for what they differ most
/// in, and where they do not for its GPU, whose kernels ran beside collectives for longer, or in another order.
[[nodiscard]] inline Awaited awaited_for(const Delays& last, const Delays& own, Nanoseconds wait, std::uint32_t ranks) {
  __extension__ using Wide = __int128;
  std::array<std::int64_t, kResources> later{}, apart{};
  Wide sum = 0;
  for (std::size_t i = 0; i < kResources; ++i) {
    apart[i] = std::abs(last.by[i] - own.by[i]);
    sum += later[i] = std::max<std::int64_t>(0, last.by[i] - own.by[i]);
  }
  const auto& most_of = sum > 0 ? later : apart;
  const auto most = static_cast<std::size_t>(std::max_element(most_of.begin(), most_of.end()) - most_of.begin());
  Awaited out = awaited_for(wait, ranks);
  Nanoseconds rest = out.all;
  for (std::size_t i = 0; i < kResources && sum > 0; ++i) {
    out.by[i] = {static_cast<std::int64_t>(Wide{out.all.count} * later[i] / sum)};
    rest -= out.by[i];
  }
  out.by[most] += rest;
  return out;
}

}  // namespace foreshard::sim
