// The file form of a workload: JSON, documented in docs/workload.md.
//
// Who: cli reads a file that a user wrote or foreshard exported; a run store keeps the workload that it came
// from as this text. Pure functions on text, thread-safe. Equal workloads give equal text.
//
// Lossless: from_json(to_json(w)) equals w for every workload that from_json accepts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::traces {

/// The "schema" number of the files that this version writes and reads.
inline constexpr std::uint32_t kWorkloadSchema = 1;
/// The "format" word that tells a workload file from other JSON.
inline constexpr std::string_view kWorkloadFormat = "foreshard workload";

/// One op a line, fields that have their default values left out.
[[nodiscard]] std::string to_json(const Workload& workload);

/// Reads a workload. `where` is the file's name, for messages. Everything wrong is an input error that names
/// the JSON path (or line and column, where it is not JSON): an unknown key or word, with the nearest known
/// one; a value of another type or out of range; a unit, parameter or label that is not there; a tensor
/// that is freed but never allocated, or twice (check_workload).
[[nodiscard]] Result<Workload> from_json(std::string_view text, std::string_view where);

/// The workload of a run store. `executed`: the store is of `foreshard run`, so that its program is foreshard's, also
/// where the store is older than Workload::lowering.
[[nodiscard]] Result<Workload> stored_workload(std::string_view text, bool executed, std::string_view where);

}  // namespace foreshard::traces
