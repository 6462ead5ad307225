// Lengths of samples, as forecast's steps have them and as plan's ranks draw them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/options/option_set.hpp"
#include "cli/options/planning.hpp"
#include "core/base/error.hpp"
#include "core/run/job_options.hpp"
#include "sim/forecast/lengths.hpp"
#include "sim/predict/drawn_lengths.hpp"

namespace foreshard::cli {

/// What --lengths says: a distribution, or the name of a file with a length a line. Errors: of either.
[[nodiscard]] Result<sim::Lengths> read_lengths(const std::string& text);

/// LengthsOption::distribution() of a stored plan; none: it has none, or its file is another one by now.
[[nodiscard]] std::optional<sim::Lengths> stored_lengths(const JobOptions& options);

/// Fails (usage) where ranks of the planned job cannot have lengths of their own, as `option` asks for.
[[nodiscard]] Result<void> check_own_lengths(std::string_view option, const Planned& planned);

/// --lengths and --pad of plan: each rank draws the length of its samples for each step.
class LengthsOption {
 public:
  /// `this` must outlive the parsing.
  void add_to(OptionSet& set);
  [[nodiscard]] bool given() const { return text_.has_value(); }

  /// What was asked for; none: nothing. `planned` then becomes the job at the longest length, and must outlive what is
  /// returned; a note says so where lengths are rounded up for want of programs. Errors (usage): what
  /// check_own_lengths() refuses, CUDA graphs, --seq beside it, and more lengths than programs are made for with --pad.
  [[nodiscard]] Result<std::optional<sim::DrawnLengths>> read(const SettingOptions& settings, Planned& planned,
                                                              Console& console);

  /// What was asked for, as read() has had it: rounded up by --pad alone. None: nothing was.
  [[nodiscard]] const std::optional<sim::Lengths>& distribution() const { return distribution_; }
  /// Appends it as it was given, to read(), with what the file had.
  void add_given(JobOptions& options) const;

 private:
  std::optional<std::string> text_;
  std::optional<std::uint32_t> pad_;
  std::optional<sim::Lengths> distribution_;
  std::string digest_;  ///< of the file; empty: there is none
};

}  // namespace foreshard::cli
