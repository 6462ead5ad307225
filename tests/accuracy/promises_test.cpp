// Which promises a row misses.
#include "accuracy/promises.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::accuracy;

namespace {

using Missed = std::vector<std::string>;

AccuracyRow row(AccuracyRow::From from, double step_ms) {
  AccuracyRow row;
  row.from = from;
  row.has_time = true;
  row.step_ms = step_ms;
  row.low_ms = 0.7 * step_ms;
  row.high_ms = 1.3 * step_ms;
  row.measured.median_ms = 100;
  row.measured.low_ms = 98;
  row.measured.high_ms = 103;
  row.peaks = row.measured.peaks = {1000, 1000, 1000, 1000};
  return row;
}

}  // namespace

TEST_CASE("a step of the GPU or the links is held to its bar, one of the host to its interval or range") {
  for (const double ms : {100 * (1 + kPromises.step) - 0.1, 100 * (1 - kPromises.step) + 0.1})
    CHECK(missed(row(AccuracyRow::From::sibling, ms)).empty());
  CHECK(missed(row(AccuracyRow::From::sibling, 100 * (1 + kPromises.step) + 0.1)) == Missed{"step"});
  CHECK(missed(row(AccuracyRow::From::model, 100 * (1 + kPromises.step) + 0.1)).empty());
  CHECK(missed(row(AccuracyRow::From::model, 100 * (1 - kPromises.model_step) - 0.1)) == Missed{"step"});

  for (bool AccuracyRow::*const bound : {&AccuracyRow::host_bound, &AccuracyRow::host_may_bind}) {
    AccuracyRow model = row(AccuracyRow::From::model, 80);
    model.*bound = true;
    CHECK(model.of_host());
    CHECK(missed(model).empty());
    model.high_ms = 99;
    CHECK(missed(model) == Missed{"interval"});
  }
  AccuracyRow sibling = row(AccuracyRow::From::sibling, 103 * (1 + kPromises.host_bound_beyond) - 0.1);
  sibling.host_bound = true;
  CHECK(missed(sibling).empty());
  sibling.step_ms += 0.2;
  CHECK(missed(sibling) == Missed{"host-bound step"});
}

TEST_CASE("a time that the plan calls not valid, or that nobody predicted, misses nothing") {
  AccuracyRow unknown = row(AccuracyRow::From::sibling, 200);
  unknown.time_known = false;
  CHECK(missed(unknown).empty());
  AccuracyRow none = row(AccuracyRow::From::model, 200);
  none.has_time = false;
  CHECK(missed(none).empty());
  AccuracyRow refused = row(AccuracyRow::From::sibling, 200);
  refused.refused = "no";
  CHECK(missed(refused).empty());
}

TEST_CASE("peaks from a recording are held to the byte") {
  AccuracyRow sibling = row(AccuracyRow::From::sibling, 100);
  sibling.peaks.reserved = 1001;
  CHECK(missed(sibling) == Missed{"reserved"});
  sibling.record_stream = true;
  CHECK(missed(sibling).empty());
  AccuracyRow model = row(AccuracyRow::From::model, 100);
  model.peaks.allocated = 1020;
  CHECK(missed(model) == Missed{"allocated"});
}
