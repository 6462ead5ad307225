// Batch and sequence length of the rank whose rank.json the recorder wrote (docs/record.md): its about.json has rank
// 0's alone.
//
// Who: cli's import. Thread safety: free functions. Deterministic.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/run/step_shapes.hpp"

namespace foreshard::traces {

/// Of each forward that was trained on ("recorded", "inputs"), by the recorder's own rule (batch_and_length of
/// recorder/foreshard/inputs.py). None: they differ among themselves, or the file does not say. Fails with
/// ErrorKind::input for broken JSON.
[[nodiscard]] Result<std::optional<StepShape>> parse_recorded_shape(std::string_view text, std::string_view name);
/// Of the rank.json that lies beside `recorded`, a snapshot or trace; none where there is no such file.
[[nodiscard]] Result<std::optional<StepShape>> recorded_shape(const std::string& recorded);

}  // namespace foreshard::traces
