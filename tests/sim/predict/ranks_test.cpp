// Plans of jobs whose ranks differ by chance, and of one in which a rank dies.
#include <array>
#include <cmath>

#include "core/explain_time/time_explanation.hpp"
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/simulate_ranks.hpp"
#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

namespace foreshard::sim {
namespace {

struct Plan {
  MachineProfile machine = *builtin_profile("h200");
  Workload workload;
  PredictRequest request;

  [[nodiscard]] Result<Prediction> predict() const { return sim::predict(workload, machine, request); }
};

Plan plan_of(std::uint32_t gpus, std::uint32_t replicate = 1, std::uint32_t batch = 4, std::uint32_t seq = 2048) {
  Plan plan;
  Settings settings;
  settings.gpus = gpus;
  settings.replicate = replicate;
  settings.batch = batch;
  settings.seq = seq;
  settings.param_dtype = DType::bfloat16;
  plan.workload = generate(*preset("llama-tiny"), settings, plan.machine.host_calls, plan.machine.gpu(), true).value();
  plan.request.settings = plan.workload.settings;
  return plan;
}

TEST_CASE("a plan with jitter keeps its step and says how long the trials' steps take") {
  Plan plan = plan_of(4);
  const double even = plan.predict()->step_ms;
  plan.request.trials = TrialsRequest{{.kernels = {Spread::Kind::lognormal, 0.02},
                                       .host = {Spread::Kind::lognormal, 0.1},
                                       .gpus = {Spread::Kind::normal, 0.02},
                                       .hosts = {}},
                                      3,
                                      40};
  const auto p = plan.predict();
  REQUIRE(p);
  CHECK(p->step_ms == even);
  CHECK(p->ranks.empty());
  REQUIRE(p->trials);
  const TrialTimes& trials = *p->trials;
  CHECK(trials.only_chance);
  CHECK(trials.world == 4);
  CHECK(trials.seed == 3);
  CHECK(trials.steps_ms.size() == 40);
  CHECK(trials.step_ms.least <= trials.step_ms.median);
  CHECK(trials.step_ms.median <= trials.step_ms.p95);
  CHECK(trials.step_ms.p95 <= trials.step_ms.most);
  CHECK(trials.step_ms.mean > even);  // a ring ends with its slowest rank
  CHECK(trials.step_ms.mean < 1.1 * even);
  CHECK(trials.waiting_ms.median > 0);
  std::uint32_t seen = 0;
  for (const LastRank& rank : trials.last) seen += rank.trials;
  CHECK(seen == 40);
  CHECK(plan.predict()->trials->steps_ms == trials.steps_ms);
}

TEST_CASE("rank 0's waiting for others is what explain --time has of it, also where its host was late") {
  for (const std::uint32_t replicate : {1U, 4U})
    for (const double slower : {1.04, 1.5}) {
      CAPTURE(replicate, slower);
      Plan plan = plan_of(4 * replicate, replicate);
      const Transport transport = replicate > 1 ? Transport::nccl : Transport::low_contention;
      plan.request.settings.all_gather = plan.request.settings.reduce_scatter = transport;
      plan.request.settings.forward_prefetch = 1;
      plan.request.differences.ranks = {{.rank = 3, .kernels = slower, .host = 1, .workload = nullptr}};
      const auto p = plan.predict();
      REQUIRE(p);
      REQUIRE(p->stragglers);
      Nanoseconds late;
      const auto time = explain_time(p->run);
      REQUIRE(time);
      for (const IdlePart& part : time->parts)
        if (part.cause == IdleCause::late_rank) late += part.end - part.start;
      CHECK(p->stragglers->ranks.front().waiting == late);
    }
}

TEST_CASE("a late host is waited for across two meshes, not the replicas' ranks that it held up") {
  Plan plan = plan_of(16, 4);  // shard groups 0–3, 4–7, …; replicas 0, 4, 8, 12, …
  plan.request.differences.ranks = {{.rank = 5, .kernels = 1, .host = 3, .workload = nullptr}};
  const auto p = plan.predict();
  REQUIRE(p);
  REQUIRE(p->stragglers);
  Nanoseconds by_rank_5;
  for (const RankTime& time : p->stragglers->ranks)
    if (time.rank == 5) by_rank_5 = time.delay;
  REQUIRE(by_rank_5.count > 0);
  for (const RankTime& time : p->stragglers->ranks)
    if (time.rank != 5) CHECK(time.delay < by_rank_5.scaled(0.05));
}

TEST_CASE("a slow rank is to blame in all trials, however small the jitter") {
  Plan plan = plan_of(4);
  plan.request.differences.ranks = {{.rank = 2, .kernels = 1.5, .host = 1, .workload = nullptr}};
  plan.request.trials =
      TrialsRequest{{.kernels = {Spread::Kind::normal, 0.01}, .host = {}, .gpus = {}, .hosts = {}}, 0, 5};
  const auto p = plan.predict();
  REQUIRE(p);
  REQUIRE(p->trials);
  CHECK_FALSE(p->trials->only_chance);
  REQUIRE(p->trials->last.size() == 1);
  CHECK(p->trials->last[0].rank == 2);
  CHECK(p->trials->last[0].trials == 5);
  CHECK(std::abs(p->trials->step_ms.median / p->step_ms - 1) < 0.01);
}

/// In how many trials a resource is to blame.
std::array<std::uint32_t, kResources> blamed(const Plan& plan) {
  const auto p = plan.predict();
  REQUIRE(p);
  REQUIRE(p->trials);
  std::array<std::uint32_t, kResources> out{};
  for (const LastRank& rank : p->trials->last)
    for (std::size_t i = 0; i < kResources; ++i) out[i] += rank.by[i].trials;
  return out;
}

using Blamed = std::array<std::uint32_t, kResources>;

TEST_CASE("chance in kernels alone is the GPUs', in hosts alone the hosts', and never a link's in one group") {
  const Spread spread{Spread::Kind::lognormal, 0.05};
  Plan gpus = plan_of(4);
  for (const Jitter& jitter : {Jitter{.kernels = spread, .host = {}, .gpus = {}, .hosts = {}},
                               Jitter{.kernels = spread, .host = {}, .gpus = spread, .hosts = {}}}) {
    gpus.request.trials = TrialsRequest{jitter, 1, 20};
    CHECK(blamed(gpus) == Blamed{20, 0, 0, 0});
  }
  Plan hosts = plan_of(4, 1, 1, 128);
  REQUIRE(hosts.predict()->bound_by() == BoundBy::host);
  hosts.request.trials = TrialsRequest{{.kernels = {}, .host = spread, .gpus = {}, .hosts = spread}, 1, 20};
  CHECK(blamed(hosts) == Blamed{0, 20, 0, 0});
}

TEST_CASE("a slow GPU is to blame in a host-bound job, also with replicas") {
  for (const std::uint32_t replicate : {1U, 2U}) {
    Plan plan = plan_of(4 * replicate, replicate, 1, 512);
    plan.request.differences.ranks = {{.rank = 2, .kernels = 1.5}};
    REQUIRE(plan.predict()->bound_by() == BoundBy::host);
    plan.request.trials = TrialsRequest{
        {.kernels = {Spread::Kind::normal, 0.01}, .host = {Spread::Kind::normal, 0.01}, .gpus = {}, .hosts = {}},
        1,
        20};
    CHECK(blamed(plan) == Blamed{20, 0, 0, 0});
  }
}

TEST_CASE("a slow adapter is to blame through the kernels that wait for its collectives, and a slow NVLink") {
  test::PlannedLlama job = test::llama_on_nodes("h200", 2, 2, 2);
  Plan plan{job.machine, job.workload, job.request};
  plan.request.trials =
      TrialsRequest{{.kernels = {Spread::Kind::normal, 0.01}, .host = {}, .gpus = {}, .hosts = {}}, 1, 5};
  plan.request.differences.slow_adapters = {{1, 3, 20}};
  CHECK(blamed(plan) == Blamed{0, 0, 0, 5});
  plan.request.differences.slow_adapters.clear();
  plan.request.differences.slow_links = {{9, 4}};
  CHECK(blamed(plan) == Blamed{0, 0, 5, 0});
}

std::vector<std::uint32_t> kept_ranks(const Prediction& p) {
  std::vector<std::uint32_t> out;
  for (const RankRecord& rank : p.run.ranks) out.push_back(rank.rank);
  return out;
}

TEST_CASE("a run keeps the timelines of so many groups of equal ranks as are asked for, late ones first") {
  Plan plan = plan_of(8);
  plan.request.differences.ranks = {{.rank = 2, .kernels = 1.2, .host = 1, .workload = nullptr},
                                    {.rank = 5, .kernels = 1.5, .host = 1, .workload = nullptr}};
  const auto all = plan.predict();
  REQUIRE(all);
  CHECK(all->run.ranks.size() == 8);
  REQUIRE(all->ranks.size() == 3);
  REQUIRE(all->ranks[0].members.size() == 3);  // 0, 1; 3, 4; 6, 7
  CHECK(all->ranks[0].members[1].first == 3);
  CHECK(all->ranks[0].members[1].count == 2);
  CHECK(all->ranks[0].kept);

  plan.request.kept_ranks = 2;
  const auto two = plan.predict();
  REQUIRE(two);
  CHECK(kept_ranks(*two) == std::vector<std::uint32_t>{0, 5});
  CHECK_FALSE(two->ranks[1].kept);
  CHECK(two->ranks[2].kept);
  CHECK(two->step_ms == all->step_ms);
  for (const std::uint32_t least : {0U, 1U}) {
    plan.request.kept_ranks = least;
    CHECK(kept_ranks(*plan.predict()) == std::vector<std::uint32_t>{0});
  }
  plan.request.kept_ranks = kAllRanks;
  CHECK(kept_ranks(*plan.predict()).size() == 8);
}

TEST_CASE("more ops of ranks than a run keeps are refused") {
  const Plan plan = plan_of(4);
  Differences differences;
  differences.ranks = {{.rank = 2, .kernels = 1.2, .host = 1, .workload = nullptr}};
  SimulationRequest request;
  request.steps.steps = 4;
  request.steps.record = true;
  const auto rows_within = [&](std::size_t limit) -> Result<std::size_t> {
    request.max_rank_ops = limit;
    Run run;
    const auto simulation =
        simulate_ranks(plan.workload, plan.workload.settings, plan.machine, request, differences, run);
    FORESHARD_TRY(simulation);
    return run.rank_ops.size();
  };
  const auto rows = rows_within(kMaxRankOps);
  REQUIRE(rows);
  REQUIRE(*rows > 0);
  CHECK(rows_within(*rows + *rows / 20));
  const auto refused = rows_within(*rows - *rows / 20);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().hint == "keep at most 3");
}

TEST_CASE("of a large job all timelines are those of its groups, whose members are told") {
  Plan plan = plan_of(32, 8);
  plan.request.differences.ranks = {{.rank = 5, .kernels = 1.5, .host = 1, .workload = nullptr}};
  plan.request.kept_ranks = kAllRanks;
  const auto p = plan.predict();
  REQUIRE(p);
  // Rank 5, its shard group, its replicate group, and the others.
  CHECK(kept_ranks(*p) == std::vector<std::uint32_t>{0, 1, 4, 5});
  std::uint32_t members = 0;
  for (const RankGroup& group : p->ranks)
    for (const RankRun& run : group.members) members += run.count;
  CHECK(members == 32);
  CHECK(rank_words(p->ranks[1].members) == "1, 9–29 (every 4th)");  // its place in the other shard groups
  CHECK(rank_words(p->ranks[3].members) == "5");
}

TEST_CASE("quantiles are nearest ranks") {
  std::vector<Trial> trials;
  for (std::int64_t i = 1; i <= 20; ++i) trials.push_back({{i * 1'000'000}, {}, 1, {{3'000'000}, {}}});
  trials.push_back({{21'000'000}, {}, kNobody, {}});
  const TrialTimes times = trial_times(trials, {{}, 0, 21}, 4, 2);
  CHECK(times.step_ms.median == 22);
  CHECK(times.step_ms.p95 == 40);
  CHECK(times.step_ms.mean == 22);
  CHECK(times.step_ms.least == 2);
  CHECK(times.step_ms.most == 42);
  REQUIRE(times.last.size() == 1);
  CHECK(times.last[0].trials == 20);
  CHECK(std::abs(times.last[0].awaited_ms - 2) < 1e-9);  // of three others
}

TEST_CASE("a rank's trials are counted by what held it up most") {
  const Awaited by_gpu{{5'000'000}, {{{4'000'000}, {1'000'000}, {}, {}}}};
  const Awaited by_network{{7'000'000}, {{{}, {}, {1'000'000}, {6'000'000}}}};
  std::vector<Trial> trials(3, Trial{{1'000'000}, {}, 2, by_gpu});
  trials.push_back({{1'000'000}, {}, 2, by_network});
  trials.push_back({{1'000'000}, {}, 3, by_network});
  const TrialTimes times = trial_times(trials, {{}, 0, 5}, 3, 1);
  REQUIRE(times.last.size() == 2);
  const auto of = [&](std::size_t rank, Resource resource) { return times.last[rank].by.at(std::size_t(resource)); };
  CHECK(of(0, Resource::gpu).trials == 3);
  CHECK(of(0, Resource::host).trials == 0);
  CHECK(of(0, Resource::network).trials == 1);
  CHECK(std::abs(of(0, Resource::gpu).awaited_ms - 1.5) < 1e-9);       // three times 4 of four, of two others
  CHECK(std::abs(of(0, Resource::network).awaited_ms - 0.75) < 1e-9);  // once 6
  double sum = 0;
  for (const LastRank::Part& part : times.last[0].by) sum += part.awaited_ms;
  CHECK(std::abs(sum - times.last[0].awaited_ms) < 1e-9);
  CHECK(of(1, Resource::network).trials == 1);
}

TEST_CASE("a rank that dies hangs its job: who waits for whom, and when PyTorch ends it") {
  Plan plan = plan_of(4, 2);
  plan.request.differences.ranks = {
      {.rank = 1, .kernels = 1, .host = 1, .workload = nullptr, .dead_from = kInReportedStep}};
  const auto p = plan.predict();
  REQUIRE(p);
  REQUIRE(p->deadlock);
  CHECK_FALSE(p->has_time);
  REQUIRE(p->hang);
  const Hang& hang = *p->hang;
  CHECK(hang.world == 4);
  REQUIRE(hang.dead.size() == 1);
  CHECK(hang.dead[0].rank == 1);
  CHECK(hang.dead[0].step == 2);
  CHECK(hang.steps == 2);
  CHECK(hang.end - hang.issued == kNcclTimeout + kNcclDumpWait);
  CHECK(std::abs(hang.gpu_seconds() - 2640) < 4);
  // Ranks 0 and 1 shard, 2 and 3 do; 1 meets 3 in all-reduces.
  REQUIRE(hang.ranks.size() == 3);
  CHECK(hang.ranks[0].ranks == std::vector<std::uint32_t>{0});
  REQUIRE_FALSE(hang.ranks[0].waits.empty());
  CHECK(hang.ranks[0].waits[0].what == "all-gather of the root");
  CHECK(hang.ranks[0].waits[0].absent == std::vector<std::uint32_t>{1});
  CHECK(p->deadlock->text ==
        "rank 1 issues nothing from step 2 on\n"
        "rank 0: all-gather of the root (shard, 2 ranks) waits for rank 1; in step 3 the host is blocked by a full "
        "launch queue\n"
        "rank 2: all-reduce of layers.7 (replicate, 2 ranks) waits for rank 0; in step 3 the host has issued all that "
        "was simulated\n"
        "rank 3: all-reduce of layers.7 (replicate, 2 ranks) waits for rank 1; in step 3 the host has issued all that "
        "was simulated\n");
}

TEST_CASE("a run that hangs is what each rank did until then") {
  Plan plan = plan_of(4, 2);
  const auto healthy = plan.predict();
  plan.request.differences.ranks = {
      {.rank = 1, .kernels = 1, .host = 1, .workload = nullptr, .dead_from = kInReportedStep}};
  const auto p = plan.predict();
  REQUIRE(p);
  const Run& run = p->run;
  // Rank 0's GPU ends two steps, as it does where nobody dies; its host stands in the fourth.
  REQUIRE(run.steps.size() == 4);
  CHECK(run.steps[1].device_end == healthy->run.steps[1].device_end);
  CHECK_FALSE(run.steps[2].device_end);
  CHECK_FALSE(run.steps[3].device_end);
  CHECK(run.steps[3].end < healthy->run.steps[3].end);
  CHECK(run.allocator.back().time <= run.steps[3].end);
  CHECK(p->peaks.reserved == run.steps[3].peaks.reserved);
  CHECK(run.device_ops.size() < healthy->run.device_ops.size());
  // What waits for ever ends where the last that is known does, on every rank.
  Nanoseconds last;
  for (const RankOpRecord& row : run.rank_ops) last = std::max(last, row.op.end);
  CHECK(last < OpTiming::kNever);
  REQUIRE(run.ranks.size() == 4);
  for (const std::uint32_t rank : {0U, 2U, 3U})
    CHECK(std::count_if(run.rank_ops.begin(), run.rank_ops.end(), [&](const RankOpRecord& row) {
            return row.rank == rank && row.op.end == last && row.op.kind == DeviceOpRecord::Kind::collective;
          }) > 0);
  for (const RankOpRecord& row : run.rank_ops)
    if (row.rank == 1) {
      CHECK(row.step < 2);
      CHECK(row.op.end < last);
    }
}

TEST_CASE("a step that is not planned, and a job of which no rank lives, have no death") {
  Plan plan = plan_of(2);
  plan.request.differences.ranks = {{.rank = 1, .kernels = 1, .host = 1, .workload = nullptr, .dead_from = 4}};
  CHECK(plan.predict().error().what == "steps 0 to 3 are planned, not step 4");
  Plan alone = plan_of(1);
  alone.request.differences.ranks = {{.rank = 0, .kernels = 1, .host = 1, .workload = nullptr, .dead_from = 1}};
  CHECK(alone.predict().error().what == "a job ends with its last rank: nobody waits");
  for (const std::uint32_t step : {1U, 2U}) {
    Plan all = plan_of(2);
    all.request.differences.ranks = {{.rank = 0, .kernels = 1, .host = 1, .workload = nullptr, .dead_from = 1},
                                     {.rank = 1, .kernels = 1, .host = 1, .workload = nullptr, .dead_from = step}};
    CHECK(all.predict().error().what == "a job ends with its last rank: nobody waits");
  }
}

Plan skipping(std::vector<std::pair<std::uint32_t, SkippedUnit>> skips, std::uint32_t gpus = 4,
              std::uint32_t replicate = 1) {
  Plan plan = plan_of(gpus, replicate);
  for (const auto& [rank, skipped] : skips) {
    plan.request.differences.ranks.push_back({.rank = rank});
    plan.request.differences.ranks.back().skips = skipped;
  }
  return plan;
}

TEST_CASE("a rank that does not run a unit hangs its job, behind gathers that mix other units' weights") {
  const auto p = skipping({{3, {"layers.5"}}}).predict();
  REQUIRE(p);
  REQUIRE(p->hang);
  const Hang& hang = *p->hang;
  CHECK(hang.steps == 2);
  REQUIRE(hang.skips.size() == 1);
  CHECK(hang.skips.at(3).from_step == 2);
  // llama-tiny has eight blocks. Rank 3 gathers 6 and 7 where the others gather 5 and 6, and then the root for backward
  // where they gather block 7 in forward.
  REQUIRE(hang.mixed.size() == 1);
  CHECK(hang.mixed[0].ranks == std::vector<std::uint32_t>{3});
  CHECK(hang.mixed[0].others == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(hang.mixed[0].count == 2);
  CHECK(hang.mixed[0].first == "all-gather of layers.6");
  CHECK(hang.mixed[0].first_of_others == "all-gather of layers.5");
  REQUIRE(hang.ranks.size() == 2);
  REQUIRE(hang.ranks[0].waits.size() == 1);
  CHECK(hang.ranks[0].waits[0].what == "all-gather of layers.7");
  CHECK(hang.ranks[0].waits[0].absent == std::vector<std::uint32_t>{3});
  REQUIRE(hang.ranks[1].waits.size() == 1);
  CHECK(hang.ranks[1].waits[0].what == "all-gather of the root");
  CHECK(hang.ranks[1].waits[0].absent == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(skipping({{3, {"layers.5", 1}}}).predict()->hang->steps == 1);
}

TEST_CASE("ranks that skip different units of one size end their steps with wrong numbers, and it is said") {
  const auto p = skipping({{0, {"layers.5"}}, {1, {"layers.6"}}}, 2).predict();
  REQUIRE(p);
  CHECK_FALSE(p->hang);
  CHECK_FALSE(p->valid);
  const auto told = std::find_if(p->not_valid.begin(), p->not_valid.end(), [](const std::string& why) {
    return why.find("NCCL raises no error and the numbers are wrong") != std::string::npos;
  });
  CHECK(told != p->not_valid.end());
}

TEST_CASE("units, steps and ranks that cannot be skipped are refused") {
  CHECK(skipping({{3, {"layers.8"}}}).predict().error().what == "there is no FSDP unit 'layers.8'");
  CHECK(skipping({{3, {"layers.5", 4}}}).predict().error().what == "steps 0 to 3 are planned, not step 4");
  CHECK(skipping({{4, {"layers.5"}}}).predict().error().what == "there is no rank 4 in a job of 4");
  CHECK(skipping({{0, {"layers.5"}}, {1, {"layers.5"}}}, 2).predict().error().what ==
        "no rank runs layers.5: nobody waits for it");
  Plan replayed = skipping({{3, {"layers.5"}}});
  replayed.request.settings.cuda_graph = CudaGraph{};
  CHECK(replayed.predict().error().what ==
        "a replay of a CUDA graph runs every unit that was captured, whatever the data are");
}

TEST_CASE("ranks are listed as runs of numbers") {
  CHECK(rank_list({5}) == "5");
  CHECK(rank_list({0, 1, 2, 4, 6, 7}) == "0-2, 4, 6, 7");
  CHECK(rank_list({0, 2, 4, 6, 8, 10, 12, 14}) == "0, 2, 4, 6, 8, 10 and 2 more");
}

}  // namespace
}  // namespace foreshard::sim
