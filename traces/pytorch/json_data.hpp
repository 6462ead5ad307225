// JSON text as plain data, for snapshots that were written with json.dump instead of pickle.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "traces/pytorch/plain_data.hpp"

namespace foreshard::traces {

/// Parses one JSON document. Equal short strings (keys, actions) share one entry. Nesting is limited to 64.
[[nodiscard]] Result<PlainDocument> read_json_data(std::string_view text, const std::string& name);

}  // namespace foreshard::traces
