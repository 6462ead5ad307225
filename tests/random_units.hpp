// Units of random parameters for property tests.
#pragma once

#include <fmt/format.h>
#include <rapidcheck.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/workload/unit.hpp"

namespace foreshard::test {

/// Of a dimension: at least the first, less than the second.
using Extents = std::pair<std::int64_t, std::int64_t>;

/// The root and one to four layers, each of one to three float32 matrices. Only within rc::check().
inline std::vector<Unit> random_units(Extents rows, Extents columns) {
  const auto within = [](Extents extents) { return *rc::gen::inRange<std::int64_t>(extents.first, extents.second); };
  std::vector<Unit> units;
  const int count = *rc::gen::inRange(2, 6);
  for (int u = 0; u < count; ++u) {
    Unit unit{u == 0 ? "" : fmt::format("layers.{}", u - 1), {}};
    const int parameters = *rc::gen::inRange(1, 4);
    for (int p = 0; p < parameters; ++p)
      unit.parameters.push_back({fmt::format("p{}", p), {within(rows), within(columns)}, DType::float32});
    units.push_back(unit);
  }
  return units;
}

}  // namespace foreshard::test
