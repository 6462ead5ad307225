// The colours of waits, in one place: the picture of explain --time and the page.
//
// Constant data. Okabe and Ito's hues: communication warm, the host purple, the GPU's own latencies grey.
#pragma once

#include <string_view>

#include "core/explain_time/time_explanation.hpp"

namespace foreshard::viz {

[[nodiscard]] std::string_view cause_colour(IdleCause cause);

}  // namespace foreshard::viz
