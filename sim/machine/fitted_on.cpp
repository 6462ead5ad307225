#include "sim/machine/fitted_on.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace foreshard::sim {
namespace {

bool below(std::string_view place, std::span<const std::string_view> sections) {
  return std::any_of(sections.begin(), sections.end(), [&](std::string_view section) {
    return place.starts_with(section) && (place.size() == section.size() || place[section.size()] == '/');
  });
}

bool used(std::string_view place, ConstantUse use) {
  static constexpr std::array<std::string_view, 2> kOfModels{"/host/calls", "/compute"};
  static constexpr std::array<std::string_view, 4> kOfCollectives{"/links", "/nccl", "/network", "/collectives"};
  switch (use) {
    case ConstantUse::recording:
      return !below(place, kOfModels);
    case ConstantUse::collective:
      return below(place, kOfCollectives);
    case ConstantUse::model:
      break;
  }
  return true;
}

}  // namespace

std::set<std::string, std::less<>> seen_by(const Provenance& provenance, ConstantUse use) {
  std::set<std::string, std::less<>> seen;
  for (const FittedOn& constant : provenance.constants) {
    if (!used(constant.place, use)) continue;
    for (const Measurement& measurement : provenance.measurements)
      if (std::find(constant.names.begin(), constant.names.end(), measurement.name) != constant.names.end())
        seen.insert(measurement.of.begin(), measurement.of.end());
  }
  return seen;
}

bool stated(const Provenance& provenance, ConstantUse use) {
  return std::none_of(provenance.constants.begin(), provenance.constants.end(), [&](const FittedOn& constant) {
    return constant.kind == FittedOn::Kind::not_stated && used(constant.place, use);
  });
}

}  // namespace foreshard::sim
