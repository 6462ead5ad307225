// Whether the intervals of plans hold: nine of ten measured steps are to lie in them.
//
// Who: cli's accuracy prints the tables and writes the rows; tests/accuracy holds the widths in the machine profile's
// /prediction against the committed rows (tests/reference/interval_rows.csv). Pure.
//
// A width is the smallest that holds nine of ten rows of its kind and one row more that has not been seen: of n errors
// the one in place 0.9 (n + 1), rounded up, which is what split-conformal prediction takes. Rows that constants were
// fitted on count as well: from recordings they are further away than the held-out ones. A row that is left out with
// all rows of its program, and whose interval then has the widths of the others, says whether the widths carry over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "accuracy/interval_rows.hpp"
#include "sim/machine/prediction_spec.hpp"
#include "sim/predict/interval.hpp"

namespace foreshard::accuracy {

using sim::kIntervalShare;

/// The width that holds kIntervalShare of `errors` (their size counts) and of one more; the largest where they are too
/// few to tell. 0 where there are none.
[[nodiscard]] double needed_width(std::vector<double> errors);

/// The widths that the rows need, other members are those of `stated`; so is a width that no row speaks of.
[[nodiscard]] sim::PredictionSpec needed_widths(const std::vector<IntervalRow>& rows,
                                                const sim::PredictionSpec& stated);

/// Whether the measured step lies in the interval that these widths give the row.
[[nodiscard]] bool is_inside(const IntervalRow& row, const sim::PredictionSpec& widths);

struct IntervalCheck {
  std::string_view what;    ///< "step from the model alone, host-bound"
  std::string_view stated;  ///< the constant: "/prediction/model_host"
  double width = 0;         ///< stated, a logarithm
  double needed = 0;
  int rows = 0;
  int programs = 0;
  int inside = 0;         ///< with the stated widths
  int left_out = 0;       ///< with the widths that the rows of other programs need
  int left_out_rows = 0;  ///< of how many: those of kinds that another program has as well
};

/// One for each kind of step, then one of all.
[[nodiscard]] std::vector<IntervalCheck> check_intervals(const std::vector<IntervalRow>& rows,
                                                         const sim::PredictionSpec& stated);

/// Ratios of two plans of one source against the measured ones: of steps that the GPU sets, and of others.
[[nodiscard]] std::vector<IntervalCheck> check_differences(const std::vector<IntervalRow>& rows,
                                                           const sim::PredictionSpec& stated);

}  // namespace foreshard::accuracy
