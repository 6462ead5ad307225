#include "sim/tune/kept_units.hpp"

#include "core/workload/unit_place.hpp"

namespace foreshard::sim {
namespace {

/// Of the last unit that reshard_after_forward speaks of.
std::uint32_t last_of(const Settings& settings, const std::vector<Unit>& units) {
  const auto last = static_cast<std::uint32_t>(units.size() - 1);
  return last > 1 && unit_place(settings, last, units.size()) == UnitPlace::head ? last - 1 : last;
}

bool keeps(const Settings& settings, const std::string& unit) {
  const auto found = settings.reshard_of_unit.find(unit);
  return found != settings.reshard_of_unit.end() && found->second.kind == Reshard::Kind::never;
}

}  // namespace

std::uint32_t kept_units(const Settings& settings, const std::vector<Unit>& units) {
  std::uint32_t count = 0;
  for (std::uint32_t u = last_of(settings, units); u > 0 && keeps(settings, units[u].name); --u) ++count;
  return count;
}

std::uint32_t most_kept_units(const Settings& settings, const std::vector<Unit>& units) {
  return units.empty() ? 0 : last_of(settings, units);
}

void keep_units(std::uint32_t count, const std::vector<Unit>& units, Settings& settings) {
  const std::uint32_t last = last_of(settings, units);
  std::erase_if(settings.reshard_of_unit,
                [](const auto& one) { return one.second.kind == Reshard::Kind::never && !one.first.empty(); });
  for (std::uint32_t u = last; u > 0 && last - u < count; --u)
    settings.reshard_of_unit[units[u].name] = {Reshard::Kind::never, 0};
}

}  // namespace foreshard::sim
