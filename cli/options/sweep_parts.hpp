// Parts of a sweep: what each of several tasks found of its share of the points, a file a part, and all of them
// together.
//
// `foreshard sweep … --part 3/8 --parts DIR` writes part-3-of-8.json into DIR; the same without --part reads all parts
// and goes on as if it had simulated every point: same points, same bytes. A part knows by the sweep's fingerprint what
// it is of. A file is there whole or not at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/option_set.hpp"
#include "core/base/error.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::cli {

struct PartsOptions {
  std::string part;    ///< "3/8", "auto"; empty: all points
  std::string folder;  ///< of the parts; empty: none

  void add_to(OptionSet& set);
  /// The part that is asked for; none: not one. Errors (usage): what is no part, one without a folder, `auto` where no
  /// launcher says which task this is.
  [[nodiscard]] Result<std::optional<sim::SweepPart>> wanted() const;
};

/// "DIR/part-3-of-8.json".
[[nodiscard]] std::string part_path(const std::string& folder, const sim::SweepPart& part);

/// The points of `part`, of all `points` of the sweep; makes the folder where there is none. Errors: input, where it
/// cannot be written; usage, where it exists and `force` is not set.
[[nodiscard]] Result<void> write_part(const std::string& folder, const sim::SweepPart& part,
                                      const std::string& fingerprint, const std::vector<sim::SweepPoint>& points,
                                      bool force);

/// Every part in the folder, by point. Errors: input, where there is none, one is damaged or parts are of different
/// numbers; mismatch, where one is of another sweep than `fingerprint`'s of so many points; usage, where some are
/// missing, which are named.
[[nodiscard]] Result<std::vector<std::optional<sim::SweepPoint>>> read_parts(const std::string& folder,
                                                                             const std::string& fingerprint,
                                                                             std::size_t points);

}  // namespace foreshard::cli
