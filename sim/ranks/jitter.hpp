// What makes the ranks of a job differ by chance, as `--jitter` says it.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "sim/engine/spread.hpp"

namespace foreshard::sim {

/// Factors on times, each of mean 1.
struct Jitter {
  Spread kernels;  ///< drawn for each kernel and copy
  Spread host;     ///< for each piece of host work between two calls
  Spread gpus;     ///< for each rank and trial: all its kernels and copies, as a clock does
  Spread hosts;    ///< for each rank and trial: all its host work
  auto operator<=>(const Jitter&) const = default;
};

/// "kernels=lognormal:2%,host=lognormal:10%,gpus=normal:1%". Fails (usage) with what to write instead.
[[nodiscard]] Result<Jitter> parse_jitter(std::string_view text);

/// As parse_jitter() reads it, those that are 0 left out.
[[nodiscard]] std::string text_of(const Jitter& jitter);

}  // namespace foreshard::sim
