// What a stored run answers in a few lines and numbers: whether it fits, how fast it is, how sure that is, and what
// makes it doubtful. Of a plan the lines are those that `plan` opened with.
//
// Who: the pages that view and serve show, and serve's list. Pure but for reading built-in machine profiles.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"
#include "sim/predict/utilization.hpp"

namespace foreshard::cli {

struct RunAnswer {
  std::vector<std::string> lines;
  std::vector<std::string> not_valid;  ///< reasons; empty: valid
  std::vector<std::string> warnings;
  bool valid = true;
  bool out_of_memory = false;
  bool may_run_out_of_memory = false;  ///< a plan under record_stream: with a host of another speed
  bool deadlock = false;
  std::optional<double> step_ms;
  std::string step_source;  ///< "predicted", "measured" or "profiled"
  std::optional<double> uncertainty;
  std::optional<double> rate;    ///< a second and GPU
  std::string rate_unit;         ///< "tokens/s/GPU"
  sim::Utilization utilization;  ///< MFU; of a plan what it says
  std::optional<Bytes> peak_reserved;
  Bytes grew_last = 0;  ///< of a recording of three steps and more: how much more the last reserves than any other
  std::optional<Bytes> capacity;  ///< what the caching allocator may take; none: neither machine nor trace says it
  std::string capacity_of;        ///< for people: "h200", "the plan's limit", "the recorded GPU"
};

[[nodiscard]] RunAnswer run_answer(const Run& run);

/// The same without what is said of the time.
[[nodiscard]] RunAnswer memory_answer(const Run& run);

/// MFU of a run whose step takes `step_ms`, on its own GPU; not known where that has no built-in profile. `workload`:
/// what was recorded.
[[nodiscard]] sim::Utilization utilization_of(const Run& run, const Workload& workload, double step_ms);

/// The page's piece "answer" (docs/view.md).
[[nodiscard]] Json run_answer_json(const RunAnswer& answer);

/// Whether it fits, and how much is left: "fits: 34.79 GiB of 138.8 GiB reserved at the peak, 104.01 GiB (75 %) left",
/// as plan says it; where the capacity or the peak is not known, that and why.
[[nodiscard]] std::string fit_line(const RunAnswer& answer);

/// The same under the key `fit` of `explain` and `import`.
[[nodiscard]] Json fit_json(const RunAnswer& answer);

/// One cell of a list: "fits", "may not fit", "does not fit", "out of memory", "deadlocks", or empty where the capacity
/// is not known.
[[nodiscard]] std::string_view fits_word(const RunAnswer& answer);

}  // namespace foreshard::cli
