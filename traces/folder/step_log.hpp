// Step times in a training log, which nothing slowed: torchtitan's lines
//   step: 10  loss:  7.8  grad_norm:  1.2  memory: 40.1GiB(42.2%)  tps: 5,762  tflops: 80.1  mfu: 8.1%
// (torchtitan/components/metrics.py, MetricsProcessor.log: tokens a second and device over the steps since the line
// before), and "end_to_end(s)" with its value, which other loggers print of the same metrics.
//
// Who: traces/import. Thread safety: free functions. Deterministic. Nothing fails: other lines are passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreshard::traces {

struct LoggedStep {
  std::uint64_t step = 0;
  double tokens_per_second = 0;  ///< of a device; 0: not in the line
  double seconds = 0;            ///< of a step; 0: not in the line
};

/// The lines with a step and one of both, each step once (several ranks may log), by step. Colours are ignored.
[[nodiscard]] std::vector<LoggedStep> logged_steps(std::string_view text);

/// What a line stands for.
struct LogUnits {
  double tokens = 0;               ///< a step and device; 0: not known, tokens a second say nothing
  std::uint32_t profile_freq = 0;  ///< as TitanConfig
  std::uint32_t profiled_steps = 0;
};

struct LoggedTimes {
  std::vector<double> step_ms;  ///< one a line, by step
  std::string from;             ///< which lines and what of them: a clause
};

/// Times of the lines behind the first, whose step allocates and compiles, and of those over no profiled step where
/// others are left. None where no line has a time.
[[nodiscard]] std::optional<LoggedTimes> times_of(std::span<const LoggedStep> steps, const LogUnits& units);

}  // namespace foreshard::traces
