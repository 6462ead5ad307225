// A batch of a search: points that are chosen before any of them is simulated, so that several tasks can have a share
// each (tune_part.hpp) and go on with all of them, each in the same state.
//
// Who: sim/tune makes them; cli's tune splits them (cli/verbs/batch_parts.hpp). Plain data.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

/// As many points are chosen before it is looked at what they bring, on any number of threads and tasks.
inline constexpr std::size_t kBatch = 32;

struct TuneBatch {
  std::size_t number = 0;                 ///< from 0, in the order of the search
  std::vector<const Settings*> settings;  ///< of each point; kBatch at most
};

/// Those of a batch's points that are named by their places; in the order of the places.
using SimulatePlaces = std::function<std::vector<SweepPoint>(const std::vector<std::size_t>& places)>;

/// Every point of a batch, in order, simulated here or taken from another task. Their settings may be left out.
using ShareBatch = std::function<Result<std::vector<SweepPoint>>(const TuneBatch&, const SimulatePlaces&)>;

}  // namespace foreshard::sim
