// A Run with something in every field, and equality of two Runs field by field, for the store's tests.
#pragma once

#include <string>

#include "core/run/run.hpp"

namespace foreshard::traces::test {

/// Every list has at least two records, no two fields of a record are equal, optional ones are there once
/// and absent once. A field that the store forgot makes the round trip differ.
[[nodiscard]] Run full_run();

/// The first difference of two runs, or an empty text.
[[nodiscard]] std::string difference(const Run& a, const Run& b);

/// A path of this name in a temporary folder of the process, which goes when it ends.
[[nodiscard]] std::string path_of(const std::string& name);

/// Gives a store that SQLite changed the checksum of what it is now, as if it had been written so.
void seal_again(const std::string& path);

}  // namespace foreshard::traces::test
