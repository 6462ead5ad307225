// Of which batch and sequence length each step of a run is: which steps are like work, and may be set side by side.
//
// Who: import writes what a recording shows where its steps differ, core/compare's callers choose steps by it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

struct StepShape {
  std::uint32_t batch = 0;  ///< samples a GPU and microbatch; 0: not known
  std::uint32_t seq = 0;    ///< tokens a sample, 1 of samples without a length; 0: not known
  auto operator<=>(const StepShape&) const = default;
  [[nodiscard]] bool known() const { return batch > 0 && seq > 0; }
};

/// The result under which import keeps the shapes of a recording whose steps differ: of `snapshot` and of `trace` a
/// list of [batch, seq] by step, null where it is not known.
inline constexpr const char* kStepShapes = "step_shapes";
/// Its text, of the shapes by step.
[[nodiscard]] std::string step_shapes_text(const std::vector<StepShape>& snapshot, const std::vector<StepShape>& trace);

class StepShapes {
 public:
  explicit StepShapes(const Run& run);

  /// The run's steps are of several shapes, also where these are not known.
  [[nodiscard]] bool differ() const { return differ_; }
  [[nodiscard]] StepShape of(Recording recording, std::int32_t index) const;
  /// Where they differ, a step's and those that others of its recording have: "4 × 2048 tokens a GPU; others are of 4 ×
  /// 1536 and 4 × 1024"; "a size that is not known, and others are of other sizes" where one is not known.
  [[nodiscard]] std::string words_of(Recording recording, std::int32_t index) const;
  /// Those whose mean the run's step time is, ascending; one where that is of one step; of a plan or a recording whose
  /// ranks have lengths of their own each rank's. Empty: not known.
  [[nodiscard]] const std::vector<StepShape>& of_mean() const { return of_mean_; }

 private:
  void take_planned(const Run& run);
  void take_ranks(const Run& run);
  void take_listed(const Run& run);
  void take_recorded(const Run& run);

  bool differ_ = false;
  StepShape all_;                    // where they do not
  std::vector<StepShape> of_trace_;  // by step; of a plan or an executed run of its own
  std::vector<StepShape> of_snapshot_;
  std::vector<StepShape> of_mean_;
};

/// "4 × 1536 tokens a GPU", "8 samples a GPU"; "a size that is not known".
[[nodiscard]] std::string shape_words(const StepShape& shape);

/// Each once, the largest first: "4 × 2048, 4 × 1536 and 4 × 1024 tokens a GPU". Empty list: that it is not known.
[[nodiscard]] std::string shape_words(std::vector<StepShape> shapes);

}  // namespace foreshard
