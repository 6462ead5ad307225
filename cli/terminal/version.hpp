// Which foreshard this is.
#pragma once

#include <string>

namespace foreshard::cli {

/// "foreshard 0.1.0 (abc1234)" and what was built in.
[[nodiscard]] std::string version_text();
/// "0.1.0"
[[nodiscard]] std::string version_number();

}  // namespace foreshard::cli
