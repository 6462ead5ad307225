// One part of a sweep as a file: what one of several tasks found of its share of the points.
//
// Who: cli's sweep writes and reads them (cli/options/sweep_parts.hpp). Numbers are read as they were written, to the
// last bit. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

inline constexpr std::uint32_t kMaxSweepParts = 65'536;

struct SweepPartFile {
  SweepPart part;
  std::string fingerprint;                        ///< of the whole sweep
  std::vector<std::optional<SweepPoint>> points;  ///< by point of the whole sweep; those of the part are there
};

/// JSON of what `points` has of `part`; settings and values follow from a point's place.
[[nodiscard]] std::string part_text(const SweepPart& part, const std::string& fingerprint,
                                    const std::vector<SweepPoint>& points);
/// Errors (input) name the place in the file.
[[nodiscard]] Result<SweepPartFile> parse_part(std::string_view text, const std::string& where);

}  // namespace foreshard::sim
