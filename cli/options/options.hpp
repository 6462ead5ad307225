// Files that options name: read, and written only where nothing is lost.
#pragma once

#include <span>
#include <string>

#include "core/base/error.hpp"

namespace foreshard::cli {

/// Whether write_text() and its like will be able to write: asked before the work (traces::may_create()).
[[nodiscard]] Result<void> may_write(const std::string& path, bool force);

/// The same of a file that is written to as it is: a FIFO or a device will do.
[[nodiscard]] Result<void> may_append(const std::string& path, bool force);

/// Refuses (usage) an output that is one of the files that are read, by whatever name, also where it may be replaced.
[[nodiscard]] Result<void> is_no_input(const std::string& output, std::span<const std::string> inputs);

/// Refuses (usage) a folder that is replaced as a whole where the file that is read lies in it.
[[nodiscard]] Result<void> holds_no_input(const std::string& folder, const std::string& input);

/// Writes a file that appears under its name only when it is whole; refuses one that is there, unless forced.
[[nodiscard]] Result<void> write_text(const std::string& path, const std::string& text, bool force);

/// The text of a JSON file that an option names. Errors (input): those of parse_strict_json(), with line and column.
[[nodiscard]] Result<std::string> read_json_file(const std::string& path);
/// What such a file says is refused: wrong input, not wrong usage, with the file's name.
[[nodiscard]] Error of_file(Error error, const std::string& path);

/// The error with the file before its place, where that does not name it: "run.db, event 12".
[[nodiscard]] Error in_file(Error error, const std::string& path);

/// The same for a run that was read from `path`, where the place is nothing or the run's name: "run.db, mlp_implicit".
[[nodiscard]] Error in_run(Error error, const std::string& run, const std::string& path);

}  // namespace foreshard::cli
