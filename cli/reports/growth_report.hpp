// How the growth of reserved memory is told: a report for people, and the same as JSON.
//
// Who: cli's explain --growth. Pure text; equal input gives equal bytes.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/explain/growth.hpp"
#include "core/run/run.hpp"

namespace foreshard::cli {

struct GrowthReport {
  std::string path;  ///< RUN as given
  const Run& run;
  const Growth& growth;
  std::vector<std::uint32_t> lengths = {};  ///< by step, where the recording shows them
};

/// "reserved stops growing in step 40 at 50.09 GiB; …"
[[nodiscard]] std::string growth_answer(const GrowthReport& report);

void print_growth(std::ostream& out, const GrowthReport& report);

/// The keys of docs/explain.md.
[[nodiscard]] Json growth_json(const GrowthReport& report);

}  // namespace foreshard::cli
