// What an about file says against what the recording settles. A setting that would leave behind other requests than the
// recorded ones is a contradiction; what leaves the same behind is not.
//
// Who: traces/import. Pure, deterministic, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "traces/infer/inference.hpp"
#include "traces/pytorch/about.hpp"

namespace foreshard::traces {

/// The mesh of the recording with the tensor parallelism that the file gives. `world`: the trace's, none without. Fails
/// with ErrorKind::mismatch where the trace shows another, or the world is no multiple of it.
[[nodiscard]] Result<Settings> given_mesh(const About& given, const Inference& inference,
                                          std::optional<std::uint64_t> world, const std::string& about_file,
                                          const std::string& recording);

/// The file's settings, units and GPU, and those of the recording where it gives none. `inference` that has no why_not.
/// Fails with ErrorKind::mismatch where the file contradicts the recording: the error names the file with what it says,
/// and the recording with what it shows; and where the settings do not go together.
[[nodiscard]] Result<About> completed(About given, const Inference& inference, const std::string& about_file,
                                      const std::string& recording);

/// What a run of that file and that recording rests on: what neither says ("assumed_KEY"), what the file alone says and
/// the recording would show otherwise as well ("given_KEY"), one stat of severity info each, and
/// what neither settles.
[[nodiscard]] std::vector<ImportStat> assumptions(const About& given, const Inference& inference);

/// completed()'s check of unshard_async, gather_alloc and offload, whose requests only taking the step apart tells
/// apart: `given` does not make the recorded ones, `found` does.
[[nodiscard]] Result<void> check_given_buffers(const About& about, const Settings& given, const Settings& found,
                                               const std::string& about_file, const std::string& recording);

/// completed()'s check of the optimizer alone, once it is settled.
[[nodiscard]] Result<void> check_given_optimizer(Optimizer given, const Inference& inference,
                                                 const std::string& about_file, const std::string& recording);

}  // namespace foreshard::traces
