// Numbers of a report that add up as they are printed: 33 % + 33 % + 34 %, and 15.24 - 6.32 is 8.92 in the line that
// has all three.
//
// Who: every table and sentence that prints a sum beside its parts, or a difference beside what it is of. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard {

/// `value` as it is printed with so many decimals.
[[nodiscard]] double as_printed(double value, int decimals);

/// `a` less `b`, both as they are printed.
[[nodiscard]] double printed_difference(double a, double b, int decimals);

/// The same of sizes as format_bytes() has them, which is of format_bytes() too: in the larger one's unit, and exact
/// where that unit would show less than 1 of it.
[[nodiscard]] Bytes printed_difference(Bytes a, Bytes b);

/// Parts of `whole` with so many decimals, each rounded down or up, those with the largest remainders up (of equal ones
/// the first), so that they add up to `whole` as it is printed. Parts that do not make the whole are rounded each
/// alone.
[[nodiscard]] std::vector<double> add_up(const std::vector<double>& parts, double whole, int decimals);

/// Sizes as format_bytes_fixed() has them, each in its own unit, as every table has them, but that the last one in the
/// unit of `whole` takes what rounding leaves: a reader who adds up what is printed comes to it.
[[nodiscard]] std::vector<Bytes> add_up(const std::vector<Bytes>& parts, Bytes whole);

/// In percent of their sum; none of them where that is 0.
[[nodiscard]] std::vector<double> shares_of(const std::vector<double>& parts, int decimals);

}  // namespace foreshard
