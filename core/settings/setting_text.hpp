// Settings in JSON files: a text may not stand for a number. Pure.
//
// Who: readers of about files and of workload files, whose settings set_setting() takes as text.
#pragma once

#include <string_view>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"

namespace foreshard {

/// Whether the JSON string `text`, which set_setting() has taken for `key`, may stand there. Fails (input) where a
/// number, true or false, or an object is meant, as in "gpus": "4".
[[nodiscard]] Result<void> check_is_text(const Settings& settings, std::string_view key, std::string_view text);

}  // namespace foreshard
