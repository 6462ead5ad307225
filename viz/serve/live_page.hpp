// The pages of the local server that are not the run's: the list of runs, one that waits for a store, one that follows
// a progress file. Used by content.cpp. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace foreshard::viz {

/// A line of the list.
struct ListedFile {
  std::string path;
  std::vector<std::string> cells;  ///< by column; empty: of what is no run
  bool is_run = false;             ///< two of these may be compared
  std::string note;                ///< of what is none: what it is
};

/// Links to the pages of several files, with `columns` of each run; a form to pick two runs where they can be compared.
[[nodiscard]] std::string list_page(const std::vector<std::string>& columns, const std::vector<ListedFile>& files,
                                    bool comparable);
/// Says so, and asks again every two seconds.
[[nodiscard]] std::string waiting_page(const std::string& path);
/// Follows the progress file of "/run/N/". `stores`: paths of the runs that are served, with the addresses of their
/// pages; `home`: of the list, empty: none.
[[nodiscard]] std::string progress_page(const std::string& path, const std::string& home,
                                        const std::vector<std::pair<std::string, std::string>>& stores);

namespace live_page_detail {

/// A page of the server with its style. `title` is text, the others are markup.
[[nodiscard]] std::string html(const std::string& title, const std::string& head, const std::string& body);

}  // namespace live_page_detail

}  // namespace foreshard::viz
