// Every error that foreshard is known to make, as one committed table: tests/reference/accuracy_baseline.csv.
//
// Who: cli's accuracy writes it (--baseline), tests hold the present errors against it: no row may get worse, one that
// got better is written anew, one that the table does not know is told. Lines are sorted; equal errors give equal
// bytes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "accuracy/accuracy.hpp"
#include "accuracy/contention_rows.hpp"
#include "accuracy/published_throughput.hpp"
#include "core/base/error.hpp"

namespace foreshard::accuracy {

/// Table ("model", "recording", "collective", "contention", "published collective", "published throughput"), row,
/// metric ("step", "reserved", "refused", …) → predicted over measured, less one (of contention: predicted less
/// measured); 1 of a prediction that is refused.
using Baseline = std::map<std::tuple<std::string, std::string, std::string>, double>;

void add_runs(const Accuracy& accuracy, Baseline& out);
void add_contention(std::span<const ContentionCheck> checks, Baseline& out);
void add_published_collectives(std::string_view machine, std::span<const CollectiveCheck> checks, Baseline& out);
void add_throughput(std::span<const PublishedRow> rows, Baseline& out);

/// "table,row,metric,value" and a line for each, values with six digits.
[[nodiscard]] std::string baseline_csv(const Baseline& baseline);
/// Errors (input) name the line: a field too few, no number, a row twice.
[[nodiscard]] Result<Baseline> read_baseline(std::string_view csv, const std::string& where);

/// Errors as large as the six digits of the table and the last bits of a sum are no change.
inline constexpr double kRounding = 5e-6;

struct BaselineChange {
  enum class Kind : std::uint8_t {
    worse = 0,   ///< further from 0 than the table says
    better = 1,  ///< nearer, or of the same size on the other side
    added = 2,   ///< not in the table
    gone = 3,    ///< in the table, of a table that `now` has, and not measured here
  };
  Kind kind;
  std::string row;  ///< "model, l1b_ac, step"
  double before = 0;
  double now = 0;
};
/// What `now` changes, sorted by row.
[[nodiscard]] std::vector<BaselineChange> changes(const Baseline& before, const Baseline& now);

}  // namespace foreshard::accuracy
