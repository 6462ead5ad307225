// The one place where names of reference runs' models stand for configurations: for recordings made before about files
// carried `model_config`. Newer recordings bring their own and never look here; nothing may be added.
//
// Private to traces/reference.
#pragma once

#include <string>
#include <string_view>

namespace foreshard::traces {

/// The config.json of the Hugging Face model that the reference runs' recorder made under the name `model`, without
/// what shapes nothing; empty where it made none.
[[nodiscard]] std::string recorder_config(std::string_view model);

}  // namespace foreshard::traces
