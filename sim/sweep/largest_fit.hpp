// The largest batch or sequence length that fits: looked for with simulations of memory alone, and named only where one
// of it fits. What fits is not strictly monotone (the allocator's cached segments), so what was tried is kept.
//
// Who: the remedies of a plan that runs out of memory; cli's sweep, beyond its points. Deterministic.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "sim/machine/profile.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

/// A setting that says how much a step works on.
enum class SizeSetting : std::uint8_t { batch = 0, seq = 1 };
[[nodiscard]] std::string_view name(SizeSetting size);  ///< "batch", as the setting's key

/// How a size fits, worst first.
enum class SizeFits : std::uint8_t {
  no = 0,
  maybe = 1,         ///< Fits::maybe
  with_retries = 2,  ///< surely, with allocation retries in the steady step: such a plan is not valid
  yes = 3,
};

struct SizeProbe {
  std::uint32_t value = 0;
  SizeFits fits = SizeFits::no;
  Bytes reserved = 0;   ///< peak; of one that ran out of memory: until then
  std::string refusal;  ///< why it could not be simulated; then it is no fit
};

struct LargestFit {
  SizeSetting size = SizeSetting::batch;
  std::uint32_t value = 0;  ///< the largest that fits without retries in the steady step, else that fits; 0: none
  std::uint32_t with_retries = 0;  ///< one that is larger and fits with such retries; 0: none
  std::vector<SizeProbe> tried;    ///< ascending
  /// That of `value`, which is not 0.
  [[nodiscard]] const SizeProbe& found() const;
};

/// "10 does not fit; 6 batch sizes were simulated": what is known of the next larger ones.
[[nodiscard]] std::string words_of(const LargestFit& found);

struct LargestFitRequest {
  Settings settings;                       ///< all but the size
  std::optional<Bytes> memory_limit = {};  ///< none: the machine's
  SizeSetting size = SizeSetting::batch;
  std::uint32_t from = 1;   ///< the smallest that is tried
  std::uint32_t below = 0;  ///< one that does not fit, which was simulated; 0: not known
  std::uint32_t most = std::numeric_limits<std::uint32_t>::max() / 2;  ///< the largest that is tried
};

/// Doubles the size until it does not fit, where `below` is not known, and bisects.
[[nodiscard]] Result<LargestFit> find_largest_fit(WorkloadSource& source, const MachineProfile& machine,
                                                  const LargestFitRequest& request);

}  // namespace foreshard::sim
