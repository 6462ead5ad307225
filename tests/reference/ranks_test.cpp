// A job of every rank, planned from two ranks' recordings, against the recording of all of them (docs/ranks.md).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "core/straggler/straggler.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/recorded_jitter.hpp"
#include "tests/catch.hpp"
#include "tests/truth_folder.hpp"
#include "traces/files/text_file.hpp"
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

/// docs/ranks.md, "What it was held against": what it says is what the program gives.
std::string page() {
  const auto text = traces::read_text("docs/ranks.md");
  REQUIRE(text);
  return *text;
}

std::string row(const std::string& what, double measured, double planned) {
  return fmt::format("| {} | {:.2f} ms | {:.2f} ms | {:+.1f} % |", what, measured, planned,
                     100 * (planned / measured - 1));
}

/// The rows of the page's table but for the step.
std::vector<std::string> rows_of(const Stragglers& recorded, const Stragglers& planned, std::uint32_t late) {
  std::vector<double> waits;
  double mean = 0;
  for (const RankTime& rank : recorded.ranks)
    if (rank.rank != late) waits.push_back(rank.waiting.ms());
  for (const double wait : waits) mean += wait / static_cast<double>(waits.size());
  const double wait = planned.ranks.front().waiting.ms();
  const auto [least, most] = std::minmax_element(waits.begin(), waits.end());
  std::vector<std::string> out{row("the others wait for rank 5, a step", mean, wait),
                               fmt::format("| each of them | {:.2f} to {:.2f} ms | {:.2f} ms | {:+.1f} to {:+.1f} % |",
                                           *least, *most, wait, 100 * (wait / *most - 1), 100 * (wait / *least - 1))};
  for (std::size_t phase = 0; phase < 2; ++phase)
    out.push_back(row("the others' compute in " + recorded.late->phases[phase].phase,
                      recorded.late->phases[phase].compute_of_others.ms(),
                      planned.late->phases[phase].compute_of_others.ms()));
  out.push_back(row("rank 5's compute", recorded.ranks[late].compute.ms(), planned.ranks[late].compute.ms()));
  return out;
}

TEST_CASE("w8_l1b_slow planned with rank 5's own recording: its step, who is waited for, and what chance adds") {
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
  CHECK(std::abs(planned->step_ms / measured - 1) < 0.02);
  CHECK(planned->step_alike_ms < 0.8 * measured);
  REQUIRE(planned->stragglers);
  REQUIRE(planned->stragglers->late);
  CHECK(planned->stragglers->late->rank == 5);
  CHECK(planned->stragglers->late->phase == "forward");
  CHECK(planned->keeps_up == -1);
  const auto recorded = find_stragglers(all.run);
  REQUIRE((recorded && recorded->late && recorded->late->own));
  REQUIRE(planned->stragglers->ranks.size() == recorded->ranks.size());
  for (std::size_t rank = 0; rank < recorded->ranks.size(); ++rank) {
    INFO("rank " << rank);
    if (rank != 5)
      CHECK(std::abs(planned->stragglers->ranks[rank].waiting.ms() / recorded->ranks[rank].waiting.ms() - 1) < 0.08);
  }
  std::vector<std::string> rows = rows_of(*recorded, *planned->stragglers, 5);
  rows.push_back(row("step", measured, planned->step_ms));
  for (const std::string& line : rows) {
    INFO(line);
    CHECK(page().find(line) != std::string::npos);
  }
  CHECK(recorded->late->own->extra == 32);  // two matrices in front of each of 16 blocks
  CHECK(recorded->late->own->extra_copies == 32);
  CHECK(recorded->late->kernels.empty());
  const auto jitter = sim::recorded_jitter(all.run);
  REQUIRE(jitter);
  CHECK(sim::text_of(jitter->jitter) ==
        "kernels=lognormal:0.97%,host=lognormal:26.56%,gpus=lognormal:0.58%,hosts=lognormal:12.08%");
  request.trials = sim::TrialsRequest{jitter->jitter, 0, 8};
  const auto drawn = sim::predict(*all.workload, *sim::builtin_profile("h200"), request);
  REQUIRE(drawn);
  REQUIRE(drawn->trials);
  CHECK(std::abs(drawn->trials->step_ms.median / measured - 1) < 0.02);
  REQUIRE(drawn->trials->last.size() == 1);
  CHECK(drawn->trials->last[0].rank == 5);
}

/// "| l1b_implicit | … |": as the page has it.
std::string gemm_row(const std::string& source, double step, double planned_step, double wait, double planned_wait) {
  return fmt::format("| {} | {:.2f} ms | {:+.1f} % | {:.2f} ms | {:+.1f} % |", source, planned_step,
                     100 * (planned_step / step - 1), planned_wait, 100 * (planned_wait / wait - 1));
}

TEST_CASE("w8_l1b_slow planned without a recording of rank 5, by what it multiplies: the step, and who waits") {
  const auto folder = test::truth_folder("runs");
  if (!folder || !std::filesystem::exists(*folder + "/w8_l1b_slow.rank0.trace.json.xz")) FORESHARD_SKIP(test::kNoTruth);
  const traces::Imported all = import_rank(*folder + "/w8_l1b_slow", 0, 7);
  const double measured = all.run.measured->steady_ms();
  const auto recorded = find_stragglers(all.run);
  REQUIRE(recorded);
  double mean = 0;
  for (const RankTime& rank : recorded->ranks) mean += rank.rank == 5 ? 0 : rank.waiting.ms() / 7;

  const sim::MachineProfile machine = *sim::builtin_profile("h200");
  sim::PredictRequest request;
  request.settings = all.workload->settings;
  request.differences.ranks = {{.rank = 5, .gemms = ExtraGemms{8192, 8192, 8192, 2}}};
  traces::ImportRequest four;
  four.snapshot = *folder + "/l1b_implicit.pickle.xz";
  four.about = *folder + "/l1b_implicit.about.json";
  four.trace = *folder + "/l1b_implicit.trace.json.xz";
  const auto of_four = traces::import_recording(four);
  REQUIRE((of_four && of_four->workload));
  const auto model = generate(*preset("llama-1b"), all.workload->settings, machine.host_calls, machine.gpu());
  REQUIRE(model);
  for (const auto& [source, workload] :
       {std::pair{"`l1b_implicit.db --gpus 8`", &*of_four->workload}, std::pair{"`llama-1b --gpus 8 …`", &*model}}) {
    INFO(source);
    const auto planned = sim::predict(*workload, machine, request);
    REQUIRE(planned);
    CHECK(std::abs(planned->step_ms / measured - 1) < 0.04);
    REQUIRE(planned->stragglers);
    for (const RankTime& rank : recorded->ranks)
      if (rank.rank != 5)
        CHECK(std::abs(planned->stragglers->ranks[rank.rank].waiting.ms() / rank.waiting.ms() - 1) < 0.05);
    REQUIRE((planned->stragglers->late && planned->stragglers->late->own));
    CHECK(planned->stragglers->late->rank == 5);
    CHECK(planned->stragglers->late->own->extra == recorded->late->own->extra);
    CHECK(planned->stragglers->late->own->extra_copies == recorded->late->own->extra_copies);
    const std::string line =
        gemm_row(source, measured, planned->step_ms, mean, planned->stragglers->ranks[0].waiting.ms());
    INFO(line);
    CHECK(page().find(line) != std::string::npos);
  }
}

/// How long ranks wait for others, from the least to the most.
std::string waits_of(const Stragglers& of) {
  const auto less = [](const RankTime& a, const RankTime& b) { return a.waiting < b.waiting; };
  const auto [least, most] = std::minmax_element(of.ranks.begin(), of.ranks.end(), less);
  return fmt::format("{:.2f} to {:.2f} ms", least->waiting.ms(), most->waiting.ms());
}

TEST_CASE("every_l1b planned from its four ranks' recordings: the step, and each rank's waiting") {
  const auto folder = test::truth_folder("runs");
  if (!folder || !std::filesystem::exists(*folder + "/every_l1b.rank0.trace.json.xz")) FORESHARD_SKIP(test::kNoTruth);
  const std::string stem = *folder + "/every_l1b";
  const traces::Imported all = import_rank(stem, 0, 3);
  std::deque<traces::Imported> ranks;
  sim::PredictRequest request;
  request.settings = all.workload->settings;
  for (std::uint32_t rank = 1; rank < 4; ++rank) {
    ranks.push_back(import_rank(stem, static_cast<int>(rank), static_cast<int>(rank)));
    request.differences.ranks.push_back({.rank = rank, .kernels = 1, .host = 1, .workload = &*ranks.back().workload});
  }
  const auto planned = sim::predict(*all.workload, *sim::builtin_profile("h200"), request);
  REQUIRE(planned);
  const double measured = all.run.measured->steady_ms();
  CHECK(std::abs(planned->step_ms / measured - 1) < 0.03);
  const std::string step = fmt::format("{:.2f} ms against {:.2f} ms measured ({:+.1f} %)", planned->step_ms, measured,
                                       100 * (planned->step_ms / measured - 1));
  INFO(step);
  CHECK(page().find(step) != std::string::npos);
  const auto recorded = find_stragglers(all.run);
  REQUIRE(recorded);
  REQUIRE(planned->stragglers);
  const std::string waits = waits_of(*planned->stragglers) + " planned, " + waits_of(*recorded) + " recorded";
  INFO(waits);
  std::string prose = page();
  std::replace(prose.begin(), prose.end(), '\n', ' ');
  CHECK(prose.find(waits) != std::string::npos);
  CHECK_FALSE(recorded->late);
  CHECK_FALSE(planned->stragglers->late);
}

}  // namespace
}  // namespace foreshard
