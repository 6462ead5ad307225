// A run on a clock that goes faster or slower: a plan's, tied to what its recording measured.
//
// Who: sim/predict (Prediction::step_ms is the stretched run's, so that every report of it has the same times). Pure.
#pragma once

#include "core/run/run.hpp"

namespace foreshard {

/// Every time of host and device, of all ranks, times `factor` (> 0) and rounded once. Order is kept: what was not
/// before something else is not now. Clock offsets stay.
void stretch(Run& run, double factor);

}  // namespace foreshard
