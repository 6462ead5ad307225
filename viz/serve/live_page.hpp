// The pages of the local server that are not the run's: the list of runs, one that waits for a store, one that follows
// a progress file. Used by content.cpp. Pure.
#pragma once

#include <string>
#include <vector>

namespace foreshard::viz {

/// Links to the pages of several files.
[[nodiscard]] std::string list_page(const std::vector<std::string>& paths);
/// Says so, and asks again every two seconds.
[[nodiscard]] std::string waiting_page(const std::string& path);
/// Follows the progress file of "/run/N/".
[[nodiscard]] std::string progress_page(const std::string& path);

}  // namespace foreshard::viz
