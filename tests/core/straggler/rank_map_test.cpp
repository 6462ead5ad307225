// What every rank does over time, and the critical path over them, on ranks made by hand: times in microseconds.
#include "core/run/plan_results.hpp"
#include "core/straggler/hang_answer.hpp"
#include "core/straggler/rank_activity.hpp"
#include "core/straggler/rank_path.hpp"
#include "tests/catch.hpp"
#include "tests/growth.hpp"

using namespace foreshard;

namespace {

constexpr StreamId kGathers{1};

class Job {
 public:
  explicit Job(std::uint32_t world) {
    run_.info.kind = RunKind::imported;
    run_.settings.gpus = world;
    run_.units = {{"", {}}, {"layers.0", {}}};
  }
  void rank(std::uint32_t rank) { run_.ranks.push_back({rank, {}, {}}); }
  void kernel(std::int32_t step, const char* name, std::int64_t start, std::int64_t end) {
    DeviceOpRecord op;
    op.stream = kComputeStream;
    op.label = run_.labels.intern(name);
    add(op, step, start, end, -1);
  }
  void gather(std::int32_t step, std::int64_t start, std::int64_t end, std::int32_t sequence,
              std::uint32_t communicator = 0) {
    DeviceOpRecord op;
    op.kind = DeviceOpRecord::Kind::collective;
    op.stream = kGathers;
    op.unit = UnitId{1};
    op.communicator = CommunicatorId{communicator};
    add(op, step, start, end, sequence);
  }
  Run& run() { return run_; }

 private:
  void add(DeviceOpRecord op, std::int32_t step, std::int64_t start, std::int64_t end, std::int32_t sequence) {
    op.start = op.issue = Nanoseconds::from_us(start);
    op.end = Nanoseconds::from_us(end);
    run_.rank_ops.push_back({run_.ranks.back().rank, step, {}, sequence, op});
  }
  Run run_;
};

/// A step of a kernel, a gather that waits for it, and a kernel behind that; rank `late`'s first one takes 300 us.
Run one_late(std::uint32_t world, std::uint32_t late) {
  Job job(world);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const std::int64_t forward = rank == late ? 400 : 200;
    job.rank(rank);
    job.kernel(0, "before", 0, 100);
    job.kernel(1, "mm", 100, forward);
    job.gather(1, forward, 450, 0);
    job.kernel(1, "add", 450, 500 + 10 * (rank == 0 ? 1 : 0));
  }
  return job.run();
}

std::int64_t microseconds(Nanoseconds time) {
  return time.count / 1000;
}

}  // namespace

TEST_CASE("ranks are told as runs of numbers") {
  const auto words = [](std::vector<std::uint32_t> ranks) { return rank_words(runs_of(ranks)); };
  CHECK(words({}) == "");
  CHECK(words({3}) == "3");
  CHECK(words({0, 1, 2, 3, 4, 6, 7}) == "0–4, 6–7");
  CHECK(words({1, 9, 13, 17, 21}) == "1, 9–21 (every 4th)");
  CHECK(words({0, 5, 9}) == "0, 5, 9");
  CHECK(words({0, 3, 6}) == "0–6 (every 3rd)");
  CHECK(words({0, 11, 22}) == "0–22 (every 11th)");
  CHECK(words({0, 21, 42}) == "0–42 (every 21st)");
  CHECK(words({0, 22, 44}) == "0–44 (every 22nd)");
  CHECK(words({0, 112, 224}) == "0–224 (every 112th)");
  CHECK(rank_words(runs_of({0, 5, 9, 20, 21, 22}), 2) == "0, 5 and 4 more");
  CHECK(rank_count(runs_of({1, 9, 13, 17, 21})) == 5);
}

TEST_CASE("each rank computes, waits for a rank, waits for a collective or is idle") {
  const auto found = rank_activity(one_late(3, 1));
  REQUIRE(found);
  CHECK(found->world == 3);
  REQUIRE(found->rows.size() == 3);
  const auto& rows = found->rows;
  REQUIRE(rows[0].stretches.size() == 4);
  CHECK(rows[0].stretches[0].state == RankState::compute);
  CHECK(microseconds(rows[0].stretches[0].end) == 200);  // two kernels without a gap are one
  CHECK(rows[0].stretches[1].state == RankState::waiting);
  CHECK(rows[0].stretches[1].for_rank == 1);
  CHECK(microseconds(rows[0].stretches[1].end) == 400);
  CHECK(rows[0].stretches[2].state == RankState::communication);
  REQUIRE(rows[1].stretches.size() == 3);
  CHECK(rows[1].stretches[1].state == RankState::communication);
  for (const RankRow& row : rows) CHECK(rank_words(row.members) == std::to_string(row.rank));
}

TEST_CASE("a run of one rank is one row: of a plan it stands for all") {
  Run run;
  CHECK_FALSE(rank_activity(run));
  run.settings.gpus = 4;
  DeviceOpRecord op;
  op.stream = kComputeStream;
  op.end = {100};
  run.device_ops = {op, op};
  run.device_ops[1].start = {150};
  run.device_ops[1].end = {200};
  run.info.kind = RunKind::planned;
  const auto plan = rank_activity(run);
  REQUIRE(plan);
  REQUIRE(plan->rows.size() == 1);
  CHECK(rank_words(plan->rows[0].members) == "0–3");
  REQUIRE(plan->rows[0].stretches.size() == 3);
  CHECK(plan->rows[0].stretches[1].state == RankState::idle);
  run.info.kind = RunKind::imported;
  CHECK(rank_count(rank_activity(run)->rows[0].members) == 1);
}

TEST_CASE("a plan's answer says whom a rank stands for, and which groups are not kept") {
  Run run = one_late(2, 1);
  run.info.kind = RunKind::planned;
  run.settings.gpus = 8;
  run.results["ranks"] = R"({"groups":[{"first_rank":0,"members":[[0,1,1],[2,5,1]],"kept":true},
    {"first_rank":1,"members":[[1,1,1]],"kept":true},{"first_rank":7,"members":[[7,1,1]],"kept":false}]})";
  const auto found = rank_activity(run);
  REQUIRE(found);
  REQUIRE(found->rows.size() == 2);
  CHECK(rank_words(found->rows[0].members) == "0, 2–6");
  REQUIRE(found->not_kept.size() == 1);
  CHECK(found->not_kept[0].first == 7);
  for (const char* answer :
       {"null", "[", R"({"groups":1})", R"({"groups":[{"first_rank":0}]})",
        R"({"groups":[{"first_rank":0,"members":[[0,4294967295,4294967295]]}]})",
        R"({"groups":[{"first_rank":-1,"members":[]}]})", R"({"groups":[{"first_rank":0,"members":[[0,0,1]]}]})"}) {
    run.results["ranks"] = answer;
    CHECK(rank_members(run).empty());
  }
}

TEST_CASE("the critical path goes over the rank that was last to begin") {
  const auto path = rank_path(one_late(3, 1), 1);
  REQUIRE(path);
  REQUIRE(path->visits.size() == 2);
  const PathVisit& late = path->visits[0];
  CHECK(late.rank == 1);
  CHECK(microseconds(late.compute) == 300);
  CHECK(late.most == "mm");
  CHECK(late.collective == "all-gather layers.0");
  const PathVisit& last = path->visits[1];  // rank 0 ends last
  CHECK(last.rank == 0);
  CHECK(microseconds(last.communication) == 50);
  CHECK(microseconds(last.compute) == 60);
  CHECK(last.collective.empty());
  CHECK(microseconds(path->end() - path->begin()) == 410);
}

TEST_CASE("the path goes on from rank to rank, and its parts add up to the step") {
  // Rank 2 holds up rank 1 in one group, and rank 1 therefore rank 0 in another.
  Job job(3);
  job.rank(0);
  job.kernel(0, "before", 0, 100);
  job.gather(1, 100, 600, 0, 7);
  job.kernel(1, "add", 600, 700);
  job.rank(1);
  job.kernel(0, "before", 0, 100);
  job.gather(1, 100, 400, 0, 8);
  job.kernel(1, "mm", 400, 500);
  job.gather(1, 500, 600, 0, 7);
  job.kernel(1, "add", 600, 650);
  job.rank(2);
  job.kernel(0, "before", 0, 120);
  job.kernel(1, "slow", 150, 300);
  job.gather(1, 300, 400, 0, 8);
  job.kernel(1, "mm", 400, 410);
  const auto path = rank_path(job.run());
  REQUIRE(path);
  CHECK(path->step == 1);
  REQUIRE(path->visits.size() == 3);
  CHECK(path->visits[0].rank == 2);
  CHECK(microseconds(path->visits[0].idle) == 30);
  CHECK(path->visits[1].rank == 1);
  CHECK(microseconds(path->visits[1].communication) == 100);
  CHECK(path->visits[2].rank == 0);
  Nanoseconds sum;
  Nanoseconds at = path->begin();
  for (const PathVisit& visit : path->visits) {
    CHECK(visit.begin == at);
    at = visit.end;
    CHECK(visit.compute + visit.communication + visit.idle == visit.end - visit.begin);
    sum += visit.end - visit.begin;
  }
  CHECK(microseconds(sum) == 580);  // from rank 2's end of step 0
}

TEST_CASE("waits in a circle end the path's jumps, not the program") {
  Job job(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    job.rank(rank);
    job.kernel(0, "before", 0, 100);
    // Each waits for the other one until 300, as ranks of clocks that are not even can seem to.
    job.gather(1, rank == 0 ? 100 : 300, 300, 0, 1);
    job.gather(1, rank == 0 ? 300 : 100, 300, 0, 2);
    job.kernel(1, "add", 300, 400);
  }
  const auto path = rank_path(job.run());
  REQUIRE(path);
  CHECK(microseconds(path->end() - path->begin()) == 300);
}

TEST_CASE("one rank, and a step without the one before, have no path") {
  CHECK_FALSE(rank_path(one_late(1, 0)));
  CHECK_FALSE(rank_path(one_late(3, 1), 0));
  CHECK_FALSE(rank_path(one_late(3, 1), 2));
}

TEST_CASE("the paths of all steps are each step's own, and take time linear in the steps") {
  const auto job_of = [](std::int32_t steps) {
    Job job(2);
    for (const std::uint32_t rank : {0U, 1U}) {
      job.rank(rank);
      for (std::int32_t step = 0; step < steps; ++step) {
        const std::int64_t begin = 1000 * step, forward = begin + (rank == 1 ? 400 : 200);
        job.kernel(step, "mm", begin, forward);
        job.gather(step, forward, begin + 450, 0);
        job.kernel(step, "add", begin + 450, begin + 900);
      }
    }
    return job.run();
  };
  const Run few = job_of(64);
  const Run many = job_of(1024);
  const std::vector<RankPath> paths = rank_paths(few);
  REQUIRE(paths.size() == 63);
  for (std::int32_t step = 1; step < 64; ++step) {
    const RankPath& path = paths[static_cast<std::size_t>(step) - 1];
    CHECK(path.step == step);
    const auto alone = rank_path(few, step);
    REQUIRE(alone);
    CHECK(path.begin() == alone->begin());
    CHECK(path.end() == alone->end());
    CHECK(path.visits.size() == alone->visits.size());
  }
  const double exponent = test::growth_exponent(
      [&](unsigned steps) { REQUIRE(rank_paths(steps == 64 ? few : many).size() == steps - 1); }, 64, 1024);
  INFO("exponent " << exponent);
  CHECK(exponent < test::kLinearWithin);
}

TEST_CASE("ranks of a plan that hangs wait for the dead one to the last that is known, and no path leads through it") {
  Job job(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    job.rank(rank);
    job.kernel(0, "before", 0, 100);
    job.kernel(1, "mm", 100, 200);
    job.gather(1, 200, 300, 0);
    job.kernel(1, "add", 300, 400);
    if (rank != 1) job.gather(2, 420, 900, 0);
  }
  Run& run = job.run();
  run.info.kind = RunKind::planned;
  for (const std::int32_t index : {0, 1, 2}) {
    StepRecord step;
    step.index = index;
    if (index < 2) step.device_end = Nanoseconds::from_us(100 + 300 * index);
    run.steps.push_back(step);
  }
  run.results = {{"deadlock", "\"rank 1 issues nothing\""}, {"hang", R"({"dead": [{"rank": 1, "from_step": 2}],
                             "ranks": [{"ranks": [0, 2], "host_stands_at": "event", "host_step": 2,
                             "waits": [{"collective": "all-gather", "communicator": "shard", "ranks": 3,
                             "absent": [1], "issued_ns": 420000}]}],
                             "whole_steps": 2, "last_whole_step_end_ns": 400000})"}};
  CHECK(hung_step(run) == 2);
  CHECK(hang_end(run) == Nanoseconds::from_us(900));
  const auto found = rank_activity(run);
  REQUIRE(found);
  REQUIRE(found->rows.size() == 3);
  for (const RankRow& row : found->rows) {
    const RankStretch& last = row.stretches.back();
    CHECK(last.state == (row.rank == 1 ? RankState::idle : RankState::waiting));
    CHECK(microseconds(last.begin) == 400);
    CHECK(microseconds(last.end) == 900);
  }
  CHECK(found->rows[0].stretches.back().for_rank == 1);
  CHECK(rank_path(run)->step == 1);
  const std::string whole = run.results["hang"];
  REQUIRE(hang_answer(run));
  REQUIRE(hang_answer(run)->dead.size() == 1);
  CHECK(hang_answer(run)->dead[0].from_step == 2);
  CHECK(hang_answer(run)->ranks[0].waits[0].issued == Nanoseconds::from_us(420));
  const auto changed = [&](const std::string& from, const std::string& to) {
    run.results["hang"] = std::string(whole).replace(whole.find(from), from.size(), to);
    return hang_answer(run);
  };
  const auto none_absent = changed("\"absent\": [1]", "\"absent\": []");
  REQUIRE(none_absent);
  CHECK(none_absent->ranks[0].waits[0].absent.empty());
  CHECK(rank_activity(run)->rows[0].stretches.back().state == RankState::idle);
  CHECK_FALSE(changed("[0, 2]", "[]"));
  CHECK_FALSE(changed("420000", "\"x\""));
  CHECK_FALSE(changed("\"host_step\"", "\"step\""));
  CHECK_FALSE(changed("\"from_step\"", "\"step\""));
  run.results["hang"] = R"({"ranks": [5]})";
  CHECK_FALSE(hang_answer(run));
  run.results["hang"] = "[]";
  CHECK_FALSE(hang_answer(run));
  CHECK(rank_activity(run)->rows[0].stretches.back().state == RankState::idle);
  run.steps.pop_back();  // as the dead rank has it
  CHECK(hung_step(run) == 2);
  CHECK(rank_path(run)->step == 1);
  run.results.clear();
  CHECK_FALSE(hung_step(run));
}
