// The model of a reference run: from the "config" of NAME.json to the configuration that generates its workload.
#pragma once

#include <optional>
#include <string>

#include "core/models/model_config.hpp"

namespace foreshard::reference {

/// The model of the run `folder`/NAME.json; nothing where no preset or family stands for it. Throws
/// std::runtime_error where the file cannot be read.
[[nodiscard]] std::optional<ModelConfig> model_of_run(const std::string& folder, const std::string& name);

}  // namespace foreshard::reference
