#include "cli/options/newest_store.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "traces/store/store.hpp"

namespace foreshard::cli {

Result<std::string> store_or_newest(const std::string& given, Console& console) {
  namespace fs = std::filesystem;
  if (!given.empty()) return given;
  std::pair<fs::file_time_type, std::string> newest{fs::file_time_type::min(), ""};
  std::error_code error;
  fs::directory_iterator at(".", error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const fs::directory_entry& entry = *at;
    std::error_code gone;  // of this entry alone
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".db" || !entry.is_regular_file(gone) || !traces::is_store(name)) continue;
    const fs::file_time_type written = entry.last_write_time(gone);
    if (!gone) newest = std::max(newest, std::pair(written, name));
  }
  if (error)
    return fail(ErrorKind::input, "the working directory cannot be listed: " + error.message(), {}, "name the run");
  if (newest.second.empty())
    return fail(ErrorKind::usage, "no run is named, and no store (*.db) lies here", {},
                "name one, or make one: foreshard import FOLDER -o run.db");
  console.note("note: " + newest.second + ", the newest store here");
  return newest.second;
}

}  // namespace foreshard::cli
