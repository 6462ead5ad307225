// Whether two runs train the same model. Used by cli/verbs/compare.cpp. Pure.
#pragma once

#include <string>

#include "core/run/run.hpp"

namespace foreshard {

/// How the models differ, a clause with both sides' numbers; empty: they are the same, or a run does not say. Modules
/// are compared whatever units they are wrapped in, elements where both know them and no tensor parallelism makes
/// shapes local to different meshes.
[[nodiscard]] std::string model_difference(const Run& a, const Run& b);

}  // namespace foreshard
