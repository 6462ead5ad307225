// The run store: one SQLite file that holds a Run (docs/trace_schema.md).
//
// Who: cli writes what plan, run and import made, and reads it for view, explain, compare and export.
// Thread safety: calls on different files may run at the same time. Determinism: equal runs give equal
// bytes, whatever the time, the directory or the number of threads.
//
// A store is written under a temporary name beside its place, made durable and then renamed. Whatever
// happens in between (a crash, a full disk), the final name never holds a store that opens and lies.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "traces/store/open_options.hpp"

namespace foreshard::traces {

struct WriteOptions {
  bool force = false;  ///< replace a file that is already there
};

/// Writes `run` to `path`. Errors: usage when the file exists and `force` is not set; input when it
/// cannot be written (directory, permission, disk full); mismatch when the run names a label, unit,
/// parameter, block or stream that it does not have, or settings that no reader could restore. After
/// an error the file at `path` is as it was and no temporary file is left.
[[nodiscard]] Result<void> write_run(const Run& run, const std::string& path, WriteOptions options = {});

/// Reads a whole store, equal in every field to the run that was written; unverified, without what import kept for
/// plans (OpenOptions::takes_kept_calibration). Refuses, as input errors, a file that is empty, not SQLite, of another
/// program, of another schema version, cut short, without its completion mark, changed since it was written, or with
/// values that no run can have.
[[nodiscard]] Result<Run> read_run(const std::string& path, OpenOptions options = {});

/// Whether a file that starts with these bytes is a SQLite file, as every store is; 15 bytes settle it.
[[nodiscard]] bool starts_as_store(std::string_view first_bytes);

/// The same of the file at `path`; false where it cannot be opened. What read_run then says of it is the error to show.
[[nodiscard]] bool is_store(const std::string& path);

}  // namespace foreshard::traces
