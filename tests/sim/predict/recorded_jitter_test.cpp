// What a recording of several steps and ranks says of chance, from recordings whose spreads are known.
#include "sim/predict/recorded_jitter.hpp"

#include <cmath>

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr std::size_t kOps = 2000;
constexpr std::int64_t kBlockedForTest = 5'000'000;

/// Kernels of 100 us, launched 10 us apart, with the jitter of `draws`. `of`: the rank's factor.
void add_step(Run& run, std::uint32_t rank, std::int32_t step, const Draws& draws, double of, const char* label = "k") {
  RankOpRecord row;
  row.rank = rank;
  row.step = step;
  row.op.stream = kComputeStream;
  row.op.label = run.labels.intern(label);
  Nanoseconds issue;
  Nanoseconds at;
  for (std::uint64_t i = 0; i < kOps; ++i) {
    const std::uint64_t place = (static_cast<std::uint64_t>(step) * 100 + rank) * kOps + i;
    row.op.issue = issue;
    row.op.start = at;
    row.op.end = at + Nanoseconds{100'000}.scaled(of * draws.factor(place));
    at = row.op.end + Nanoseconds{1'000};
    issue += Nanoseconds{10'000}.scaled(draws.factor(place + 1'000'000'000));
    run.rank_ops.push_back(row);
  }
}

TEST_CASE("spreads are found again: of ops, and of ranks") {
  const Draws draws{{Spread::Kind::lognormal, 0.04}, 5};
  Run run;
  run.info.kind = RunKind::imported;
  const double factors[] = {0.98, 1.0, 1.02};
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    for (std::int32_t step = 0; step < 4; ++step) add_step(run, rank, step, draws, factors[rank]);
  const auto found = recorded_jitter(run);
  REQUIRE(found);
  CHECK(std::abs(found->jitter.kernels.deviation / 0.04 - 1) < 0.05);
  CHECK(std::abs(found->jitter.host.deviation / 0.04 - 1) < 0.05);
  // Four steps of each: of twelve, each 0.02 off but for four that are not.
  CHECK(std::abs(found->jitter.gpus.deviation / (0.02 * std::sqrt(8 / 11.0)) - 1) < 0.05);
  CHECK(found->jitter.hosts.deviation < 0.002);
  CHECK(found->jitter.kernels.kind == Spread::Kind::lognormal);
  CHECK(found->rests_on ==
        "2000 kernels that no collective runs beside and 1999 pieces of host work, in 12 steps of 3 ranks that issue "
        "the same 2000 ops");
}

TEST_CASE("kernels beside a collective, blocked launches and steps of other ops are left out") {
  const Draws none{{}, 5};
  Run run;
  run.info.kind = RunKind::imported;
  for (std::int32_t step = 0; step < 2; ++step) add_step(run, 0, step, none, 1);
  add_step(run, 0, 2, none, 1, "another");
  for (const std::size_t twice : {std::size_t{5}, kOps + 7}) run.rank_ops[twice].op.end += Nanoseconds{100};
  run.rank_ops[kOps + 9].op.end += Nanoseconds{50'000};  // beside the collective of the first step
  RankOpRecord collective = run.rank_ops[9];
  collective.op.kind = DeviceOpRecord::Kind::collective;
  collective.op.stream = StreamId{1};
  run.rank_ops.insert(run.rank_ops.begin() + kOps + 10, collective);
  run.rank_ops[kOps + 10].step = 1;
  run.rank_ops.insert(run.rank_ops.begin() + 10, collective);
  for (std::size_t i = 1000; i < kOps + 1; ++i) run.rank_ops[i].op.issue += Nanoseconds{kBlockedForTest};
  const auto found = recorded_jitter(run);
  REQUIRE(found);
  CHECK(found->jitter.kernels.deviation < 0.001);
  CHECK(found->jitter.host.deviation == 0);
  CHECK(found->rests_on.ends_with("in 2 steps of 1 rank that issue the same 2001 ops; other steps, left out: 1"));
}

TEST_CASE("one step of one rank, and a plan, say nothing of chance") {
  Run run;
  run.info.kind = RunKind::imported;
  CHECK_FALSE(recorded_jitter(run));
  add_step(run, 0, 0, {}, 1);
  CHECK_FALSE(recorded_jitter(run));
  add_step(run, 0, 1, {}, 1);
  CHECK(recorded_jitter(run));
  run.info.kind = RunKind::planned;
  CHECK_FALSE(recorded_jitter(run));
}

}  // namespace
}  // namespace foreshard::sim
