// Whether two runs train the same model. Used by cli/verbs/compare.cpp. Pure.
#pragma once

#include <string>

#include "core/run/run.hpp"

namespace foreshard {

/// How the models differ, a clause with both sides' numbers; empty: they are the same, or a run does not say. Elements
/// are compared where both know them and no tensor parallelism makes shapes local to different meshes, whatever is
/// wrapped; else how many modules are.
[[nodiscard]] std::string model_difference(const Run& a, const Run& b);

}  // namespace foreshard
