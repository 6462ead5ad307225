// A job of every rank, planned from two ranks' recordings, against the recording of all of them (docs/ranks.md).
#include <cmath>
#include <filesystem>

#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/truth_folder.hpp"
#include "traces/import/import.hpp"

namespace foreshard {
namespace {

traces::Imported import_rank(const std::string& stem, int rank, int last_rank) {
  const auto trace = [&](int of) { return stem + ".rank" + std::to_string(of) + ".trace.json.xz"; };
  traces::ImportRequest request;
  request.snapshot = stem + ".pickle.xz";
  request.about = stem + ".about.json";
  request.trace = trace(rank);
  for (int other = rank + 1; other <= last_rank; ++other) request.rank_traces.push_back(trace(other));
  auto imported = traces::import_recording(request);
  INFO((imported ? "" : imported.error().text()));
  REQUIRE(imported);
  return std::move(*imported);
}

TEST_CASE("w8_l1b_slow planned with rank 5's own recording: its step, and who is waited for") {
  const auto folder = test::truth_folder("runs");
  if (!folder || !std::filesystem::exists(*folder + "/w8_l1b_slow.rank0.trace.json.xz")) FORESHARD_SKIP(test::kNoTruth);
  const traces::Imported all = import_rank(*folder + "/w8_l1b_slow", 0, 7);
  const traces::Imported slow = import_rank(*folder + "/w8_l1b_slow", 5, 5);
  REQUIRE(all.workload);
  REQUIRE(slow.workload);
  sim::PredictRequest request;
  request.settings = all.workload->settings;
  request.differences.ranks = {{.rank = 5, .kernels = 1, .host = 1, .workload = &*slow.workload}};
  const auto planned = sim::predict(*all.workload, *sim::builtin_profile("h200"), request);
  REQUIRE(planned);
  REQUIRE(all.run.measured);
  const double measured = all.run.measured->steady_ms();
  CHECK(std::abs(planned->step_ms / measured - 1) < 0.02);  // -1.0 %
  CHECK(planned->step_alike_ms < 0.8 * measured);
  REQUIRE(planned->stragglers);
  REQUIRE(planned->stragglers->late);
  CHECK(planned->stragglers->late->rank == 5);
  CHECK(planned->stragglers->late->phase == "forward");
}

}  // namespace
}  // namespace foreshard
