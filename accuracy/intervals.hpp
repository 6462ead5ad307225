// Whether the intervals that plans state around their steps hold: the half widths of a machine profile's /prediction
// against the measured steps.
//
// Who: cli's accuracy prints them; tests/accuracy holds the profile's numbers against the committed table. The
// rule: a half width is stated so wide that four of five held-out rows lie inside, rounded up to a whole per cent.
// `foreshard accuracy` prints that number for each kind of prediction. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "accuracy/accuracy.hpp"

namespace foreshard::accuracy {

/// The share of held-out rows that an interval is to hold for.
inline constexpr double kIntervalShare = 0.8;

/// Half the width, relative to the prediction, in which kIntervalShare of the rows lie. `errors`: measured over
/// predicted, less one. 0 where there are none.
[[nodiscard]] double needed_half_width(std::vector<double> errors);

/// The rows of one kind of prediction.
struct IntervalCheck {
  std::string_view what;    ///< "step from the model alone, host-bound"
  std::string_view stated;  ///< the profile's constants: "/prediction/model_host"
  ErrorSum error;           ///< measured over predicted, less one
  int inside = 0;           ///< rows whose measured median lies in the plan's own interval
  double needed = 0;        ///< needed_half_width()
  double least = 0;         ///< of the half widths that these plans state
  double most = 0;
};

/// One for each kind, from recordings at other settings and from models, in the order of PredictionSpec; rows that did
/// something else than was asked, and pairs whose plan is not valid, are left out, as in every sum of accuracy.
[[nodiscard]] std::vector<IntervalCheck> check_intervals(const Accuracy& accuracy, AccuracyRow::Seen seen);

}  // namespace foreshard::accuracy
