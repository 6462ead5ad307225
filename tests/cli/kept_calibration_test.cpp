// What import keeps for plans of a recording: it comes back to the bit, and to the program and machine that it is of.
#include "cli/options/kept_calibration.hpp"

#include <nlohmann/json.hpp>

#include "cli/terminal/build_id.hpp"
#include "core/base/digest.hpp"
#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

KeptCalibration kept() {
  KeptCalibration out;
  out.host_scale = {
      0.1 + 0.2, sim::HostScale::Source::steady, 1.0 / 3, 0.987654321098765, 2, true, 123.4567891, 99.000000000000014,
      1e-17};
  out.workload_digest = "xxh3:0123456789abcdef";
  return out;
}

}  // namespace

TEST_CASE("a kept calibration comes back to the bit") {
  const std::string text = calibration_text(kept(), "program", "h200");
  const auto back = read_calibration(text, "program", "h200");
  REQUIRE(back);
  CHECK(calibration_text(*back, "program", "h200") == text);
  CHECK(back->host_scale.factor == kept().host_scale.factor);
  CHECK(back->host_scale.recorded_factor == kept().host_scale.recorded_factor);
  CHECK(back->host_scale.source == kept().host_scale.source);
  CHECK(back->host_scale.late_rank == 2);
  CHECK(back->host_scale.host_bound);
  CHECK(back->workload_digest == kept().workload_digest);
}

TEST_CASE("of another program or machine, or not whole, nothing was kept") {
  const std::string text = calibration_text(kept(), "program", "h200");
  CHECK_FALSE(read_calibration(text, "another", "h200"));
  CHECK_FALSE(read_calibration(text, "program", "h100"));
  CHECK_FALSE(read_calibration(calibration_text(kept(), "", "h200"), "", "h200"));  // no build id
  for (const char* other : {"", "{", "7", "[]", "{}"}) CHECK_FALSE(read_calibration(other, "program", "h200"));
  for (const char* key : {"factor", "source", "workload", "host_bound", "spread"}) {
    INFO(key);
    auto changed = nlohmann::ordered_json::parse(text);
    changed[key] = nlohmann::ordered_json::array();
    CHECK_FALSE(read_calibration(changed.dump(), "program", "h200"));
    changed.erase(key);
    CHECK_FALSE(read_calibration(changed.dump(), "program", "h200"));
  }
  auto changed = nlohmann::ordered_json::parse(text);
  changed["source"] = 17;
  CHECK_FALSE(read_calibration(changed.dump(), "program", "h200"));
}

TEST_CASE("a source takes what was kept of its own workload on the machine that is planned") {
  if (build_id().empty()) return;  // then nothing is kept
  const auto taken = [](const std::string& machine, const std::string& digest) {
    traces::Source source;
    source.calibration = calibration_text(kept(), build_id(), "h200");
    source.stored_digest = digest;
    take_calibration(machine, source);
    return source.host_scale;
  };
  const std::string digest = kept().workload_digest;
  REQUIRE(taken("h200", digest));
  CHECK(taken("h200", digest)->factor == kept().host_scale.factor);
  CHECK_FALSE(taken("h100", digest));
  CHECK_FALSE(taken("./h200.json", digest));
  CHECK_FALSE(taken("h200", "xxh3:0000000000000000"));
}

TEST_CASE("a stored run has what was kept of its own workload") {
  if (build_id().empty()) return;
  Run run;
  run.workload_json = "{}";
  CHECK_FALSE(kept_host_scale("h200", run));
  KeptCalibration of_run = kept();
  of_run.workload_digest = digest_of(run.workload_json);
  run.results[std::string(kCalibrationResult)] = calibration_text(of_run, build_id(), "h200");
  REQUIRE(kept_host_scale("h200", run));
  CHECK(kept_host_scale("h200", run)->anchor == kept().host_scale.anchor);
  CHECK_FALSE(kept_host_scale("a100", run));
  run.workload_json += ' ';
  CHECK_FALSE(kept_host_scale("h200", run));
}

TEST_CASE("a program knows its build id, and says the same each time") {
  CHECK(build_id() == build_id());
}
