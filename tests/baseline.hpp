// Holds errors against the committed table tests/reference/accuracy_baseline.csv.
//
// Tests run in the root of the source tree.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "accuracy/baseline.hpp"
#include "tests/catch.hpp"

namespace foreshard::accuracy {

/// Fails for each row that got worse, and for each that got better and is not written down; tells what is new or gone.
inline void hold(const Baseline& now) {
  const std::string path = "tests/reference/accuracy_baseline.csv";
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto before = read_baseline(text, path);
  INFO((before ? std::string() : before.error().text()));
  REQUIRE(before);
  for (const BaselineChange& change : changes(*before, now)) {
    switch (change.kind) {
      case BaselineChange::Kind::worse:
        FAIL_CHECK(change.row << ": error was " << change.before << ", is " << change.now);
        break;
      case BaselineChange::Kind::better:
        FAIL_CHECK(change.row << ": error was " << change.before << ", is " << change.now
                              << ": ./dev accuracy writes the better one down");
        break;
      case BaselineChange::Kind::added:
        WARN(change.row << " is new: " << change.now);
        break;
      case BaselineChange::Kind::gone:
        WARN(change.row << " was not measured here");
        break;
    }
  }
}

}  // namespace foreshard::accuracy
