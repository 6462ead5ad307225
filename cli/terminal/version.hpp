// Which foreshard this is.
#pragma once

#include <string>

namespace foreshard::cli {

/// "foreshard 0.1.0 (abc1234)", a line.
[[nodiscard]] std::string version_text();
/// "abc1234", with a + where files were changed; "no repository".
[[nodiscard]] std::string version_commit();
/// "0.1.0"
[[nodiscard]] std::string version_number();

}  // namespace foreshard::cli
