// What the recorder could not do: "problems" of its rank.json (docs/record.md).
//
// Who: cli's import. Thread safety: free functions. Deterministic.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::traces {

/// In the file's order; what is no text is passed over. Fails with ErrorKind::input for broken JSON.
[[nodiscard]] Result<std::vector<std::string>> parse_recorder_problems(std::string_view text, std::string_view name);
/// Of the rank.json that lies beside `recorded`, a snapshot or trace; none where there is no such file.
[[nodiscard]] Result<std::vector<std::string>> recorder_problems(const std::string& recorded);

}  // namespace foreshard::traces
