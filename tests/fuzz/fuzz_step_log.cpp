// Any text is a log: steps ascend, and times are finite and positive.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "traces/folder/step_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard::traces;
  const auto steps = logged_steps({reinterpret_cast<const char*>(data), size});
  for (std::size_t i = 1; i < steps.size(); ++i) FORESHARD_CHECK(steps[i - 1].step < steps[i].step, "steps ascend");
  for (const LogUnits units : {LogUnits{}, {8192, 0, 0}, {8192, 10, 4}, {1, 1, 7}}) {
    const auto times = times_of(steps, units);
    if (!times) continue;
    for (const double ms : times->step_ms) FORESHARD_CHECK(std::isfinite(ms) && ms > 0, "a time is a time");
  }
  return 0;
}
