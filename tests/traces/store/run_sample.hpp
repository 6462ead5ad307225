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

/// A fresh directory of this test process; removed at exit.
[[nodiscard]] std::string temporary_directory();

[[nodiscard]] std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);

}  // namespace foreshard::traces::test
