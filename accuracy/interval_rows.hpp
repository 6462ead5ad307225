// Predictions with what was measured, one row each: what intervals are read off and held against.
//
// Who: intervals.hpp; cli's accuracy writes them (--interval-rows), tests read the committed ones. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accuracy/accuracy.hpp"
#include "accuracy/published_throughput.hpp"
#include "core/base/enum_names.hpp"
#include "core/base/error.hpp"

namespace foreshard::accuracy {

/// One prediction, and what was measured.
struct IntervalRow {
  enum class Kind : std::uint8_t {
    recorded = 0,   ///< from a recording at other settings
    modelled = 1,   ///< from a model
    published = 2,  ///< from a model, a published rate of training on a machine that nothing was measured on
  };
  Kind kind = Kind::recorded;
  std::string program;     ///< rows of one program are left out together: "llama-1b 4x2048"
  std::string source;      ///< the recording; empty: a model
  std::string run;         ///< the run predicted
  bool adapted = false;    ///< recorded kernels, rearranged (sim::Basis::adapted)
  double moved_below = 0;  ///< how much of a change of the host's speed reaches the step, 0 to 1
  double moved_above = 0;
  double predicted_ms = 0;
  double measured_ms = 0;

  /// Logarithm of measured over predicted.
  [[nodiscard]] double error() const;
  /// Whether the host's speed can have caused the error: more than half of its change reaches the step, on that side.
  [[nodiscard]] bool host_moves() const { return (error() < 0 ? moved_below : moved_above) > 0.5; }
};

/// The rows whose intervals count: steps from recordings at other settings and from models that are valid and did what
/// was asked.
[[nodiscard]] std::vector<IntervalRow> interval_rows(const Accuracy& accuracy);

/// Of a published rate, whose step is measured over predicted as the rate is predicted over published.
[[nodiscard]] IntervalRow published_interval_row(const PublishedRow& row);

/// `before` with the rows of `now` in place of, or beside, its own; sorted by kind, program, source and run.
[[nodiscard]] std::vector<IntervalRow> with_rows(std::vector<IntervalRow> before, const std::vector<IntervalRow>& now);

[[nodiscard]] std::string interval_rows_csv(const std::vector<IntervalRow>& rows);
/// Fails (input) at the first line that is no row.
[[nodiscard]] Result<std::vector<IntervalRow>> read_interval_rows(std::string_view csv, std::string_view where);

}  // namespace foreshard::accuracy

template <>
struct foreshard::EnumNames<foreshard::accuracy::IntervalRow::Kind> {
  static constexpr std::array<std::string_view, 3> kNames{"recorded", "modelled", "published"};
};
static_assert(foreshard::names_end_with(foreshard::accuracy::IntervalRow::Kind::published));
