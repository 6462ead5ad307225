// Kernels that one rank of a recording runs and the others do not: which, how often and for how long.
//
// How: two kernels are the same on two ranks where name and grid are equal. A kind that a rank runs another number of
// times than the middle rank counts with what its launches, and the sums of its times, differ by. Kernels need not last
// as long as others of their kind, but for the factor of the rank's GPU.
//
// Who: rank_fit.cpp and straggler.cpp, so that both say the same.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/fitted_factor.hpp"
#include "core/straggler/kind_factors.hpp"

namespace foreshard {

/// A step on average, against the middle rank.
struct OwnKernels {
  std::string name;  ///< the one that takes most
  double extra = 0;  ///< kernels that the middle rank does not launch
  Nanoseconds extra_time;
  double missing = 0;        ///< kernels of the middle rank that this one does not launch
  Nanoseconds missing_time;  ///< on the middle rank
  double extra_copies = 0;   ///< memsets and copies likewise, which are no kernels
  Nanoseconds extra_copies_time;
  double missing_copies = 0;
  Nanoseconds missing_copies_time;
};

/// Ranks whose kernels' factors are closer to 1 than this are alike, and own kernels of less of the step's kernel time
/// are none. Measured on the eleven ranks of 4 and 8 x H200 where nothing is wrong (every_l1b, and w8_l1b_slow but for
/// its rank 5; PyTorch 2.11, one profiled step): kernels are within 0.8 %.
inline constexpr double kAlikeKernels = 0.02;

namespace straggler_detail {

/// What the GPUs of a recording's ranks run in some steps, collectives left out.
class KernelKinds {
 public:
  KernelKinds(const Run& run, const std::set<std::int32_t>& steps);

  /// Ranks that ran anything, in order; the others of this class are by their places.
  [[nodiscard]] const std::vector<std::uint32_t>& ranks() const { return ranks_; }
  /// How long each rank's kernels take over the middle rank's: those beside which nothing ran on any rank. Where every
  /// kernel ran beside something on some rank, all of them.
  [[nodiscard]] const std::vector<FittedFactor>& factors() const { return factors_; }
  /// None where they take less than kAlikeKernels of the step's kernel time.
  [[nodiscard]] std::optional<OwnKernels> own(std::size_t place) const;

 private:
  using Kind = std::tuple<DeviceOpRecord::Kind, std::uint32_t, std::array<std::uint32_t, 3>>;

  [[nodiscard]] double middle_time() const;

  const Run& run_;
  double steps_ = 1;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::map<Kind, std::vector<TimedWork>>> works_;  ///< by place
  std::vector<FittedFactor> factors_;
};

}  // namespace straggler_detail
}  // namespace foreshard
