// One part of a sweep, of a search, of trials, and of a forecast, as another task wrote it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/forecast/forecast_part.hpp"
#include "sim/ranks/trials_part.hpp"
#include "sim/sweep/sweep_part.hpp"
#include "sim/tune/tune_part.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto part = foreshard::sim::parse_sweep_part(text, "part.json"))
    if (part->part.size(part->found.size()) > part->found.size()) __builtin_trap();
  if (const auto part = foreshard::sim::parse_tune_part(text, "batch-0.json"))
    if (part->found.size() > foreshard::sim::kBatch) __builtin_trap();
  static_cast<void>(foreshard::sim::parse_trials_part(text, "part.json"));
  static_cast<void>(foreshard::sim::parse_forecast_part(text, "part.json"));
  return 0;
}
