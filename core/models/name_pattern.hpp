// Patterns of module and parameter names, as `--freeze` and `--lora-targets` take them (docs/models.md).
//
// A pattern is one or more components joined by dots and stands for as many components of a name: "layers.0-7",
// "wq", "*norm*", "lm_head.weight". In a component `*` stands for any text, `?` for one character, and A-B for the
// numbers from A to B.
//
// Who: trained_model.cpp. Pure; linear in the name for each component of the pattern.
#pragma once

#include <string_view>

namespace foreshard::model {

/// Whether `pattern` stands for some of the components of `name`: a module's pattern for all of its parameters.
[[nodiscard]] bool names(std::string_view pattern, std::string_view name);
/// … for the last ones: the name itself or what ends it, as PEFT's target_modules.
[[nodiscard]] bool names_end(std::string_view pattern, std::string_view name);

}  // namespace foreshard::model
