// What an about file says against what the recording settles. A setting that would leave behind other requests than the
// recorded ones is a contradiction; what leaves the same behind is not.
//
// Who: traces/import. Pure, deterministic, thread-safe.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "traces/infer/inference.hpp"
#include "traces/pytorch/about.hpp"

namespace foreshard::traces {

/// The file's settings, units and GPU, and those of the recording where it gives none. `inference` without trouble.
/// Fails with ErrorKind::mismatch where the file contradicts the recording: the error names the file with what it says,
/// and the recording with what it shows; and where the settings do not go together.
[[nodiscard]] Result<About> completed(About given, const Inference& inference, const std::string& about_file,
                                      const std::string& recording);

/// What a run of that file and that recording rests on without either saying so, one stat of severity info each, and
/// the questions that stay closed.
[[nodiscard]] std::vector<ImportStat> assumptions(const About& given, const Inference& inference);

/// completed()'s check of the optimizer alone, once it is settled.
[[nodiscard]] Result<void> check_given_optimizer(Optimizer given, const Inference& inference,
                                                 const std::string& about_file, const std::string& recording);

}  // namespace foreshard::traces
