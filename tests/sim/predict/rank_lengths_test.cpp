// Ranks of a model whose samples have another length than the job's.
#include <algorithm>
#include <vector>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

namespace foreshard::sim {
namespace {

/// llama-1b on one node of eight, 1,024 tokens a sample, and its programs of other lengths.
struct Lengths {
  test::PlannedLlama job = test::llama_on_nodes("h200", 1, 1, 4);
  std::vector<Workload> programs = {};

  Lengths() { programs.reserve(8); }  // differences point into it

  RankDifference of(std::uint32_t rank, std::uint32_t seq) {
    Settings settings = job.request.settings;
    settings.seq = seq;
    programs.push_back(
        generate(*preset("llama-1b"), settings, job.machine.host_calls, job.machine.gpu(), true).value());
    return {.rank = rank, .workload = &programs.back(), .seq = seq};
  }

  Prediction plan(const std::vector<RankDifference>& ranks, std::optional<Bytes> limit = {}) {
    job.request.differences.ranks = ranks;
    job.request.memory_limit = limit;
    auto p = job.plan();
    INFO((p ? "" : p.error().text()));
    REQUIRE(p);
    return std::move(*p);
  }

  /// All ranks at one length.
  Prediction alone(std::uint32_t seq) {
    Lengths other;
    other.of(0, seq);
    other.job.workload = other.programs.back();
    other.job.request.settings = other.job.workload.settings;
    return other.plan({});
  }
};

}  // namespace

TEST_CASE("a longer rank is waited for, and the more the longer it is") {
  Lengths job;
  const double alike = job.plan({}).step_ms;
  double step = alike, wait = 0;
  for (const std::uint32_t seq : {1536U, 2048U, 3072U}) {
    const Prediction p = job.plan({job.of(5, seq)});
    INFO(seq);
    CHECK(p.step_ms > step);
    CHECK(p.step_alike_ms == Approx(alike).epsilon(1e-9));
    REQUIRE(p.stragglers);
    REQUIRE(p.stragglers->late);
    CHECK(p.stragglers->late->rank == 5);
    REQUIRE(p.stragglers->ranks.size() == 8);
    const RankTime& longest = p.stragglers->ranks[5];
    CHECK(longest.waiting.count == 0);
    Nanoseconds least{INT64_MAX};
    for (const RankTime& rank : p.stragglers->ranks)
      if (rank.rank != 5) {
        CHECK(rank.step == longest.step);  // collectives end on all ranks at once
        CHECK(rank.delay.count == 0);      // for it alone
        CHECK(rank.waiting == longest.delay);
        least = std::min(least, rank.waiting);
      }
    CHECK(least.ms() > wait);
    step = p.step_ms;
    wait = least.ms();
  }
  // A shorter rank waits itself, for longer than any of those that it waits for.
  const Prediction shorter = job.plan({job.of(5, 512)});
  REQUIRE(shorter.stragglers);
  const std::vector<RankTime>& ranks = shorter.stragglers->ranks;
  CHECK(std::max_element(ranks.begin(), ranks.end(), [](const RankTime& a, const RankTime& b) {
          return a.waiting < b.waiting;
        })->rank == 5);
}

TEST_CASE("memory, run and what fits are of the rank that needs most, wherever it is") {
  Lengths job;
  const Prediction longest = job.alone(2048);
  RankDifference sixth = job.of(5, 2048), fifth = sixth;
  sixth.rank = 6;
  const Prediction p = job.plan({job.of(3, 512), fifth, sixth});
  CHECK(p.told_rank == 5);
  CHECK(p.peaks.reserved == longest.peaks.reserved);
  CHECK(p.peaks.allocated == longest.peaks.allocated);
  CHECK(p.run.ranks.front().rank == 5);
  CHECK(p.run.steps.back().peaks.reserved == p.peaks.reserved);
  REQUIRE(p.run.ranks.size() == 8);
  std::vector<std::uint32_t> ranks;
  for (const RankRecord& rank : p.run.ranks) ranks.push_back(rank.rank);
  CHECK(ranks == std::vector<std::uint32_t>{5, 0, 1, 2, 3, 4, 6, 7});
  // The ops of the first rank are the run's.
  const auto own = std::count_if(p.run.rank_ops.begin(), p.run.rank_ops.end(),
                                 [](const RankOpRecord& row) { return row.rank == 5; });
  CHECK(own > 0);
  CHECK(p.run.rank_ops.front().rank == 5);
  REQUIRE(p.stragglers);
  CHECK(std::is_sorted(p.stragglers->ranks.begin(), p.stragglers->ranks.end(),
                       [](const RankTime& a, const RankTime& b) { return a.rank < b.rank; }));
  REQUIRE(p.ranks.size() == 3);
  CHECK(p.ranks[0].seq == 0);
  CHECK(p.ranks[1].seq == 512);
  CHECK(p.ranks[2].seq == 2048);
  CHECK(p.ranks[2].count == 2);
  // A limit that the others fit in.
  const Bytes limit = (job.plan({}).peaks.reserved + longest.peaks.allocated) / 2;
  const Prediction full = job.plan({job.of(5, 2048)}, limit);
  CHECK(full.out_of_memory);
  CHECK(full.told_rank == 5);
  CHECK_FALSE(job.plan({}, limit).out_of_memory);
}

TEST_CASE("tokens and MFU are those of all ranks, in the mean") {
  Lengths job;
  const Prediction alike = job.plan({});
  const Prediction p = job.plan({job.of(1, 2048), job.of(2, 512)});
  CHECK(p.mean_seq == (6 * 1024 + 2048 + 512) / 8.0);
  CHECK(p.work == 4 * p.mean_seq);
  CHECK(alike.work == 4 * 1024);
  CHECK(alike.mean_seq == 0);
  // More FLOPs a step than eight ranks at 1,024, by a little more than the tokens: attention's grow faster.
  const double flops = p.utilization.value * p.step_ms / (alike.utilization.value * alike.step_ms);
  CHECK(flops > p.mean_seq / 1024);
  CHECK(flops < 1.05 * p.mean_seq / 1024);
}

TEST_CASE("equal lengths of all ranks but by another name are the job of that length") {
  Lengths job;
  std::vector<RankDifference> all{job.of(0, 2048)};
  for (std::uint32_t rank = 1; rank < 8; ++rank) {
    all.push_back(all.front());
    all.back().rank = rank;
  }
  const Prediction p = job.plan(all);
  const Prediction same = job.alone(2048);
  CHECK(p.ranks.size() == 1);
  CHECK(p.step_ms == Approx(same.step_ms).epsilon(1e-9));
  CHECK(p.peaks.reserved == same.peaks.reserved);
  CHECK(p.work == same.work);
}

TEST_CASE("threads and what is kept change no number of a job with lengths") {
  Lengths job;
  const std::vector<RankDifference> ranks{job.of(5, 2048), job.of(6, 1536)};
  const Prediction one = job.plan(ranks);
  job.job.request.threads = 4;
  const Prediction four = job.plan(ranks);
  CHECK(one.step_ms == four.step_ms);
  CHECK(one.peaks.reserved == four.peaks.reserved);
  job.job.request.kept_ranks = 2;
  const Prediction two = job.plan(ranks);
  CHECK(two.step_ms == one.step_ms);
  CHECK(two.run.ranks.size() == 2);
  CHECK(two.run.ranks.front().rank == 5);
  REQUIRE(one.rank_costs.size() == 2);
  CHECK(one.rank_costs[0].what == "rank 5's length");
  RankDifference both = ranks[0];
  both.gemms = ExtraGemms{8192, 8192, 8192, 2};
  CHECK(job.plan({both, ranks[1]}).step_ms > one.step_ms + 20);
}

}  // namespace foreshard::sim
