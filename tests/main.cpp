// The test programs' main, compiled once: Catch2's, which says by its status whether a case was skipped.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <iostream>

#include "tests/catch.hpp"

namespace foreshard::test {
namespace {

int skipped_cases = 0;

/// What Catch2 gives when nothing failed: its version 3 has a status for "all skipped".
int passed_status = 0;

#if CATCH_VERSION_MAJOR >= 3
class SkipCounter : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;
  void testRunEnded(const Catch::TestRunStats& stats) override {
    skipped_cases += static_cast<int>(stats.totals.testCases.skipped);
    if (stats.totals.testCases.total() == stats.totals.testCases.skipped) passed_status = 4;
  }
};
CATCH_REGISTER_LISTENER(SkipCounter)
#endif

}  // namespace

void skip_case(const std::string& reason) {
  ++skipped_cases;
  std::cout << "skipped: " << Catch::getResultCapture().getCurrentTestName() << ": " << reason << '\n';
}

/// Catch2's own status may be the number of failures, and so that of skipping.
int status_of(int catch_status) {
  if (catch_status != 0 && catch_status != passed_status) return 1;
  return skipped_cases > 0 ? kSkippedStatus : 0;
}

}  // namespace foreshard::test

int main(int argc, char** argv) {
  return foreshard::test::status_of(Catch::Session().run(argc, argv));
}
