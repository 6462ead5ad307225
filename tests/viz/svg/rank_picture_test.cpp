// The heat map of ranks: bins, names, and the picture.
#include "viz/svg/rank_picture.hpp"

#include "tests/catch.hpp"
#include "viz/scene/rank_map.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

RankRow row(std::uint32_t rank, std::initializer_list<RankStretch> stretches) {
  return {rank, {{rank, 1, 1}}, stretches};
}

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

/// A planned job of `world` ranks, each listed, whose steps take 1 ms; rank 1 holds up the others' gather by 0.4 ms.
Run job(std::uint32_t world, std::int32_t steps = 3) {
  Run run;
  run.info.kind = RunKind::planned;
  run.info.name = "a <job>";
  run.settings.gpus = world;
  run.units = {{"", {}}};
  run.streams = {{kComputeStream, "compute", 0, 0}, {StreamId{1}, "all-gather", 0, 0}};
  const LabelId mm = run.labels.intern("aten::mm");
  for (std::int32_t step = 0; step < steps; ++step) {
    const Nanoseconds begin = Nanoseconds::from_us(1000 * step);
    run.steps.push_back(
        {Recording::run, step, begin, begin + Nanoseconds::from_us(990), begin + Nanoseconds::from_us(1000), {}, 0, 0});
    run.phases.push_back({step, Recording::run, "forward", begin, begin + Nanoseconds::from_us(990)});
  }
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    run.ranks.push_back({rank, {}, {}});
    for (std::int32_t step = 0; step < steps; ++step) {
      const auto at = [step](std::int64_t us) { return Nanoseconds::from_us(1000 * step + us); };
      DeviceOpRecord op;
      op.label = mm;
      const std::int64_t forward = rank == 1 ? 600 : 200;
      const auto add = [&](std::int64_t start, std::int64_t end, std::int32_t sequence) {
        op.issue = at(0);
        op.start = at(start);
        op.end = at(end);
        op.kind = sequence < 0 ? DeviceOpRecord::Kind::kernel : DeviceOpRecord::Kind::collective;
        op.stream = sequence < 0 ? kComputeStream : StreamId{1};
        op.communicator = sequence < 0 ? CommunicatorId{} : CommunicatorId{0};
        run.rank_ops.push_back({rank, step, {}, sequence, op});
        if (rank == 0) run.device_ops.push_back(op);
      };
      add(0, forward, -1);
      add(forward, 700, 0);
      add(700, 1000, -1);
    }
  }
  return run;
}

}  // namespace

TEST_CASE("a bin has the state that takes most of it, and whom it waits for longest") {
  const RankRow of = row(0, {{RankState::compute, {0}, {60}, 0},
                             {RankState::waiting, {60}, {80}, 3},
                             {RankState::waiting, {80}, {110}, 5},
                             {RankState::idle, {110}, {200}, 0}});
  const auto cells = rank_cells(of, {0}, {300}, 3);
  REQUIRE(cells.size() == 2);
  CHECK(cells[0].state == RankState::compute);
  CHECK(cells[1].state == RankState::idle);
  CHECK(cells[1].bins == 1);
  const auto fine = rank_cells(of, {50}, {110}, 2);
  REQUIRE(fine.size() == 2);
  CHECK(fine[0].for_rank == 3);
  CHECK(fine[1].for_rank == 5);
  CHECK(rank_cells(of, {0}, {0}, 3).empty());
  CHECK(rank_cells(of, {300}, {400}, 3).empty());
}

TEST_CASE("the times of a row add up, and are told") {
  const RankRow of =
      row(0, {{RankState::compute, {0}, {2'000'000}, 0}, {RankState::waiting, {2'000'000}, {3'000'000}, 3}});
  CHECK(state_words(state_times(of, {1'000'000}, {5'000'000})) ==
        "compute 1.00, behind collectives 0.00, waits for a rank 1.00, idle 0.00 ms");
}

TEST_CASE("rows are named after their ranks, and what is not there is told") {
  RankActivity activity{8, true, {row(0, {}), row(5, {})}, {}};
  activity.rows[0].members = runs_of({0, 1, 2, 3, 4, 6});
  CHECK(row_name(activity, activity.rows[0]) == "ranks 0–4, 6 (6)");
  CHECK(row_name(activity, activity.rows[1]) == "rank 5");
  activity.not_kept = {{7, {{7, 1, 1}}, false}};
  CHECK(not_shown(activity) == "1 ranks in 1 group of equal ones are not kept: plan … --ranks all -o RUN keeps them");
  activity.not_kept.clear();
  activity.planned = false;
  CHECK(not_shown(activity) == "1 of 8 ranks are not recorded: import FOLDER --rank all reads every rank's trace");
  activity.rows.resize(1);
  activity.rows[0].members = {{0, 1, 1}};
  CHECK(row_name(activity, activity.rows[0]) == "the recorded rank");
}

TEST_CASE("the picture of ranks has a row for each and the path over them, the same twice") {
  const Run run = job(4);
  const auto svg = draw_rank_map(run, {});
  REQUIRE(svg);
  CHECK(*svg == *draw_rank_map(run, {}));
  CHECK(svg->find(">rank 3<") != std::string::npos);
  CHECK(svg->find("<job>") == std::string::npos);
  CHECK(svg->find("nan") == std::string::npos);
  CHECK(svg->find("rank 1: compute 0.90") != std::string::npos);
  CHECK(svg->find("rank 0: compute 0.50, behind collectives 0.10, waits for a rank 0.40") != std::string::npos);
  CHECK(svg->find("critical path of step 2, 1.00 ms:") != std::string::npos);
  CHECK(svg->find(
            "rank 1: 0.60 ms (compute 0.60), most in aten::mm (0.60 ms); then it is the last to begin all-gather") !=
        std::string::npos);
  CHECK(occurrences(*svg, "<g>") == 4);
  CHECK(*draw_rank_map(run, {.window = {}, .width = 900, .theme = Theme::dark}) != *svg);
}

TEST_CASE("a step without a path does not hide the paths before it") {
  Run run = job(4, 5);
  std::erase_if(run.rank_ops, [](const RankOpRecord& row) { return row.step == 2; });
  const auto svg = draw_rank_map(run, {.window = {.all = true}});
  REQUIRE(svg);
  CHECK(svg->find("critical path of step 1, 1.00 ms:") != std::string::npos);
  CHECK(svg->find("critical path of step 3") == std::string::npos);  // what is before it is not there
  CHECK(svg->find("critical path of step 4, 1.00 ms:") != std::string::npos);
}

TEST_CASE("a thousand rows are bands that can still be told apart") {
  const auto svg = draw_rank_map(job(1000), {});
  REQUIRE(svg);
  CHECK(occurrences(*svg, "<g>") == 250);
  CHECK(svg->find("250 rows of up to 4 ranks") != std::string::npos);
}

TEST_CASE("a plan of equal ranks is one row, a run without ops none") {
  Run run = job(4);
  run.ranks.clear();
  run.rank_ops.clear();
  const auto svg = draw_rank_map(run, {});
  REQUIRE(svg);
  CHECK(svg->find(">ranks 0–3 (4)<") != std::string::npos);
  CHECK(svg->find("critical path") == std::string::npos);
  run.device_ops.clear();
  CHECK_FALSE(draw_rank_map(run, {}));
  CHECK_FALSE(draw_rank_map(job(4), {.window = {}, .width = 100}));
}
