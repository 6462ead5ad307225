// Imports of the reference runs: peaks of every recorded step to the byte, and wrong pairs refused.
// FORESHARD_TRUTH names their folder; without it these tests are skipped.

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/run/step_shapes.hpp"
#include "core/straggler/straggler.hpp"
#include "tests/catch.hpp"
#include "tests/truth_folder.hpp"
#include "traces/import/import.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

std::set<std::string> run_names(const std::string& folder) {
  std::set<std::string> names;
  const std::string suffix = ".about.json";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); name.ends_with(suffix))
      names.insert(name.substr(0, name.size() - suffix.size()));
  return names;
}

std::string if_there(const std::string& path) {
  return std::filesystem::exists(path) ? path : std::string();
}

ImportRequest request_of(const std::string& folder, const std::string& name) {
  return {.snapshot = folder + "/" + name + ".pickle.xz",
          .trace = if_there(folder + "/" + name + ".trace.json.xz"),
          .about = folder + "/" + name + ".about.json"};
}

}  // namespace

TEST_CASE("every step's peaks are the measured ones, to the byte") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& name : run_names(*folder)) {
    INFO(name);
    const auto imported = import_recording(request_of(*folder, name));
    if (!imported) UNSCOPED_INFO(imported.error().text());
    REQUIRE(imported);
    CHECK(imported->workload.has_value());
    nlohmann::json measured;
    std::ifstream(*folder + "/" + name + ".json") >> measured;
    std::size_t at = 0;
    for (const StepRecord& step : imported->run.steps) {
      if (step.recording != Recording::snapshot) continue;
      const auto& expected = measured["memory_steps"].at(at++);
      CHECK(step.peaks.requested == expected["requested_bytes.all.peak"]);
      CHECK(step.peaks.allocated == expected["allocated_bytes.all.peak"]);
      CHECK(step.peaks.active == expected["active_bytes.all.peak"]);
      CHECK(step.peaks.reserved == expected["reserved_bytes.all.peak"]);
    }
    CHECK(at == measured["memory_steps"].size());
  }
}

TEST_CASE("a recording whose lengths differ says of which each of its steps is, the profiled ones too") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  if (!run_names(*folder).contains("vary_l1b")) FORESHARD_SKIP("no vary_l1b");
  const auto run = import_run(request_of(*folder, "vary_l1b"));
  REQUIRE(run);
  const StepShapes shapes(*run);
  const std::vector<std::uint32_t> lengths{2048, 1536, 1024, 1536};  // truth.py's --vary, from the first step on
  for (std::int32_t step = 0; step < 8; ++step)
    CHECK(shapes.of(Recording::snapshot, step) == StepShape{4, lengths[static_cast<std::size_t>(step) % 4]});
  // Eight recorded steps, twelve measured ones, and then the profiled two: the cycle begins again.
  CHECK(shapes.of(Recording::trace, 0) == StepShape{4, 2048});
  CHECK(shapes.of(Recording::trace, 1) == StepShape{4, 1536});
}

TEST_CASE("files of different runs are refused, with the file that disagrees") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  const std::set<std::string> names = run_names(*folder);
  const auto pair = [&](const std::string& run, const std::string& trace) {
    if (!names.contains(run) || !names.contains(trace)) return;
    ImportRequest request = request_of(*folder, run);
    request.trace = *folder + "/" + trace + ".trace.json.xz";
    INFO(run << " with the trace of " << trace);
    const auto imported = import_run(request);
    REQUIRE_FALSE(imported);
    CHECK(imported.error().kind == ErrorKind::mismatch);
    CHECK(imported.error().where.find(trace) != std::string::npos);
  };
  pair("l1b_implicit", "hf_gpt2");       // other units
  pair("l1b_implicit", "l1b_accum2");    // other microbatches
  pair("l1b_implicit", "l1b_hsdp2");     // other groups
  pair("l1b_implicit", "l1b_symm_ce");   // other transport
  pair("l1b_implicit", "l1b_fwd2bwd2");  // other order
  pair("l1b_s512", "l1b_implicit");      // a busier GPU than the measured step has time for
  pair("mlp_implicit", "mlp_noreshard");
  for (const auto& [run, trace] : {std::pair{"l1b_implicit", "l1b_s512"},  // other batch and length, from either side
                                   {"l1b_s512", "l1b_implicit"},
                                   {"l1b_fwd2bwd2", "l1b_s512_fwd2bwd2"},
                                   {"l1b_symm_ce", "l1b_s512_symm_ce"}}) {
    ImportRequest request = request_of(*folder, run);
    request.trace = *folder + "/" + trace + ".trace.json.xz";
    request.about.clear();
    INFO(run << " with the trace of " << trace << ", no about file");
    const auto imported = import_run(request);
    REQUIRE_FALSE(imported);
    CHECK(imported.error().kind == ErrorKind::mismatch);
    CHECK(imported.error().what.find("another batch size or sequence length") != std::string::npos);
  }
}

TEST_CASE("every rank's trace of a run: its clocks, its ops, and the rank that was made late") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  const auto with_ranks = [&](const std::string& name, std::uint32_t ranks) {
    ImportRequest request = request_of(*folder, name);
    request.trace = *folder + "/" + name + ".rank0.trace.json.xz";
    for (std::uint32_t rank = 1; rank < ranks; ++rank)
      request.rank_traces.push_back(fmt::format("{}/{}.rank{}.trace.json.xz", *folder, name, rank));
    auto run = import_run(request);
    REQUIRE(run);
    CHECK(run->ranks.size() == ranks);
    for (const RankRecord& rank : run->ranks) {
      CHECK(rank.clock_offset < Nanoseconds{200'000});  // one host, one clock: nothing but how collectives end
      CHECK(rank.clock_offset > Nanoseconds{-200'000});
      CHECK(rank.clock_error < Nanoseconds{1'000'000});
    }
    REQUIRE(run->measured);
    const auto found = find_stragglers(*run);
    CHECK(run->measured->late_rank == (found && found->late ? static_cast<std::int32_t>(found->late->rank) : -1));
    return found;
  };
  const auto slow = with_ranks("w8_l1b_slow", 8);
  REQUIRE(slow);
  REQUIRE(slow->late);
  CHECK(slow->late->rank == 5);
  CHECK(slow->late->phase == "forward");
  REQUIRE(slow->late->own);
  CHECK(slow->late->own->extra == 32);  // two GEMMs a block, 16 blocks
  CHECK(slow->late->own->missing == 0);
  const auto even = with_ranks("every_l1b", 4);
  REQUIRE(even);
  CHECK_FALSE(even->late);
  for (const auto& found : {slow, even})
    for (const RankTime& rank : found->ranks)
      CHECK(rank.compute + rank.waiting + rank.communication + rank.idle == rank.step);
}
