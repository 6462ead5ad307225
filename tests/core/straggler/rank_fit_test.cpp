// What makes ranks differ, on ranks made by hand: times in microseconds.
#include "core/straggler/rank_fit.hpp"

#include "core/straggler/told_ranks.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

class FitRanks {
 public:
  explicit FitRanks(std::uint32_t world, std::int32_t steps = 1) {
    run_.info.kind = RunKind::imported;
    run_.settings.gpus = world;
    for (std::int32_t step = 0; step < steps; ++step)
      run_.steps.push_back(
          {.recording = Recording::trace, .index = step, .start = {}, .end = {}, .device_end = {}, .peaks = {}});
  }

  void rank(std::uint32_t rank) {
    run_.ranks.push_back({rank, {}, {}});
    issue_ = at_ = step_ = 0;
  }
  void step(std::int32_t step) { step_ = step; }
  void kernel(const char* name, std::int64_t length, std::int64_t host = 5) {
    DeviceOpRecord op;
    op.stream = kComputeStream;
    op.label = run_.labels.intern(name);
    add(op, length, host, -1);
  }
  void gather(std::uint32_t communicator, std::int32_t sequence, std::int64_t length) {
    DeviceOpRecord op;
    op.kind = DeviceOpRecord::Kind::collective;
    op.bytes = 1024;
    op.communicator = CommunicatorId{communicator};
    add(op, length, 5, sequence);
  }
  /// On another stream, since the last op began.
  void beside(std::int64_t length) {
    RankOpRecord row = run_.rank_ops.back();
    row.sequence = -1;
    row.op.kind = DeviceOpRecord::Kind::kernel;
    row.op.stream = StreamId{7};
    row.op.label = run_.labels.intern("copy-in");
    row.op.end = row.op.start + Nanoseconds::from_us(length);
    run_.rank_ops.push_back(row);
  }
  [[nodiscard]] RanksFit fit() const {
    auto found = fit_ranks(run_);
    REQUIRE(found);
    return std::move(*found);
  }
  [[nodiscard]] Run& run() { return run_; }

 private:
  void add(DeviceOpRecord op, std::int64_t length, std::int64_t host, std::int32_t sequence) {
    issue_ += host;
    at_ = std::max(at_, issue_);
    op.issue = Nanoseconds::from_us(issue_);
    op.start = Nanoseconds::from_us(at_);
    at_ += length;
    op.end = Nanoseconds::from_us(at_);
    run_.rank_ops.push_back({run_.ranks.back().rank, step_, {}, sequence, op});
  }

  Run run_;
  std::int64_t issue_ = 0, at_ = 0;
  std::int32_t step_ = 0;
};

/// The kernels of rank `slow_gpu` take `kernels` times as long, the launches of rank `slow_host` `host` times.
struct Slow {
  std::uint32_t gpu = 2;
  double kernels = 1;
  std::uint32_t host_of = 1;
  double host = 1;
};

FitRanks some(std::uint32_t world, const Slow& slow) {
  FitRanks ranks(world);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    ranks.rank(rank);
    const double gpu = rank == slow.gpu ? slow.kernels : 1;
    const auto launch = static_cast<std::int64_t>(rank == slow.host_of ? 10 * slow.host : 10);
    for (int i = 0; i < 8; ++i) {
      ranks.kernel("gemm", static_cast<std::int64_t>(200 * gpu), launch);
      ranks.kernel("add", static_cast<std::int64_t>(40 * gpu), launch);
    }
  }
  return ranks;
}

/// Three ranks, of which rank 1 runs a kernel of `length` more.
FitRanks one_with_more(std::int64_t length) {
  FitRanks ranks(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.rank(rank);
    for (int i = 0; i < 4; ++i) {
      ranks.kernel("gemm", 100);
      if (rank == 1) ranks.kernel("debug gemm", length);
    }
  }
  return ranks;
}

/// `world` ranks in groups of neighbours, a gather of 100 us each but where `length` says otherwise.
template <class Length>
FitRanks in_groups(std::uint32_t world, std::uint32_t group, Length length) {
  FitRanks ranks(world);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    ranks.rank(rank);
    for (std::int32_t i = 0; i < 4; ++i) ranks.gather(rank / group, i, length(rank));
  }
  return ranks;
}

}  // namespace

TEST_CASE("a slow GPU and a slow host are found with their factors") {
  const RanksFit fit = some(4, {.kernels = 1.25, .host = 2}).fit();
  REQUIRE(fit.ranks.size() == 4);
  CHECK(fit.ranks[2].kernels.value == Approx(1.25));
  CHECK(fit.ranks[2].kernels.differs(kAlikeKernels));
  CHECK(fit.ranks[1].host.value == Approx(2));
  CHECK(fit.ranks[1].host.differs(kAlikeHosts));
  for (const std::uint32_t rank : {0U, 1U, 3U}) CHECK_FALSE(fit.ranks[rank].kernels.differs(kAlikeKernels));
  for (const std::uint32_t rank : {0U, 2U, 3U}) CHECK_FALSE(fit.ranks[rank].host.differs(kAlikeHosts));
  for (const RankFit& rank : fit.ranks) CHECK_FALSE(rank.own);
}

TEST_CASE("ranks that are alike do not differ") {
  for (const RankFit& rank : some(4, {.kernels = 1.01, .host = 1.4}).fit().ranks) {
    CHECK_FALSE(rank.kernels.differs(kAlikeKernels));
    CHECK_FALSE(rank.host.differs(kAlikeHosts));
  }
}

TEST_CASE("of two ranks the middle one is the faster") {
  const RanksFit fit = some(2, {.gpu = 1, .kernels = 1.25, .host_of = 0, .host = 2}).fit();
  CHECK(fit.ranks[0].kernels.value == Approx(1));
  CHECK(fit.ranks[1].kernels.value == Approx(1.25));
  CHECK(fit.ranks[0].host.value == Approx(2));
  CHECK(fit.ranks[1].host.value == Approx(1));
}

TEST_CASE("a factor is as sure as its kinds agree, whatever it is") {
  const FittedFactor factor = straggler_detail::fitted_factor({{3.2, 1}, {4, 2}, {4.8, 1}});
  CHECK(factor.value == Approx(4));
  CHECK(factor.spread == Approx(0.1));
  CHECK(factor.differs(0.02));
  CHECK_FALSE(FittedFactor{1.5, 0.35, 3}.differs(0.02));  // 0.35 of 1.5
  CHECK_FALSE(straggler_detail::fitted_factor({{0.5, 1}, {1.1, 2}, {1.5, 1}}).differs(0.02));
}

TEST_CASE("launches that a full launch queue blocks are no host work") {
  FitRanks ranks(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.rank(rank);
    for (int i = 0; i < 8; ++i) {
      ranks.kernel("gemm", 200, 10);
      ranks.kernel("add", 40, rank == 1 && i >= 1 ? 400 : 10);  // rank 1 is far ahead of its GPU, the others are not
    }
  }
  const RanksFit fit = ranks.fit();
  CHECK(fit.ranks[1].host.samples > 0);
  for (const RankFit& rank : fit.ranks) CHECK(rank.host.value == Approx(1));
}

TEST_CASE("kernels of one rank alone are its own, and no factor") {
  const RanksFit fit = one_with_more(300).fit();
  REQUIRE(fit.ranks[1].own);
  CHECK(fit.ranks[1].own->name == "debug gemm");
  CHECK(fit.ranks[1].own->extra == 4);
  CHECK(fit.ranks[1].own->extra_time == Nanoseconds::from_us(1200));
  CHECK(fit.ranks[1].own->missing == 0);
  CHECK_FALSE(fit.ranks[1].kernels.differs(kAlikeKernels));
  CHECK_FALSE(fit.ranks[0].own);
}

TEST_CASE("own kernels that take next to nothing are not told") {
  CHECK_FALSE(one_with_more(1).fit().ranks[1].own);
}

TEST_CASE("own kernels that are longer than others of their kind count with their time") {
  FitRanks ranks(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.rank(rank);
    for (int i = 0; i < 4; ++i) {
      ranks.kernel("add", rank == 1 ? 60 : 50);  // a GPU that is 1.2 times slower
      ranks.kernel("gemm", rank == 1 ? 120 : 100);
      if (rank == 1) ranks.kernel("gemm", 900);
    }
  }
  const RanksFit fit = ranks.fit();
  REQUIRE(fit.ranks[1].own);
  CHECK(fit.ranks[1].kernels.value == Approx(1.2));
  CHECK(fit.ranks[1].own->extra_time == Nanoseconds::from_us(3600));
}

TEST_CASE("own kernels are not counted by a factor that its kinds disagree about") {
  FitRanks ranks(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.rank(rank);
    ranks.kernel("add", rank == 1 ? 50 : 100);
    ranks.kernel("mul", rank == 1 ? 90 : 100);
    ranks.kernel("sub", rank == 1 ? 150 : 100);
    ranks.kernel("gemm", 100);
    if (rank == 1) ranks.kernel("gemm", 900);
  }
  const RanksFit fit = ranks.fit();
  CHECK(fit.ranks[1].kernels.value == Approx(0.9));
  REQUIRE(fit.ranks[1].own);
  CHECK(fit.ranks[1].own->extra_time == Nanoseconds::from_us(900));
}

TEST_CASE("kernels that a rank has more of do not make up for those that it lacks") {
  FitRanks ranks(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.rank(rank);
    ranks.kernel("add", 50);
    for (int i = 0; i < 4; ++i) ranks.kernel(rank == 1 ? "gemm of another shape" : "gemm", 100);
  }
  const RanksFit fit = ranks.fit();
  REQUIRE(fit.ranks[1].own);
  CHECK(fit.ranks[1].own->extra == 4);
  CHECK(fit.ranks[1].own->extra_time == Nanoseconds::from_us(400));
  CHECK(fit.ranks[1].own->missing == 4);
  CHECK(fit.ranks[1].own->missing_time == Nanoseconds::from_us(400));
}

TEST_CASE("the first of several steps is left out, and those that were not recorded whole") {
  FitRanks ranks(2, 3);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ranks.rank(rank);
    for (std::int32_t step = 0; step < 4; ++step) {  // the trace ends within step 3
      ranks.step(step);
      ranks.kernel("gemm", rank == 1 && (step == 0 || step == 3) ? 900 : 100);
    }
  }
  const RanksFit fit = ranks.fit();
  CHECK(fit.steps == 2);
  CHECK(fit.ranks[1].kernels.value == Approx(1));
}

TEST_CASE("a group whose collectives move more slowly than those of its shape") {
  const RanksFit fit = in_groups(8, 2, [](std::uint32_t rank) { return rank / 2 == 3 ? 300 : 100; }).fit();
  REQUIRE(fit.groups.size() == 1);
  CHECK(fit.groups[0].ranks == std::vector<std::uint32_t>{6, 7});
  CHECK(fit.groups[0].kind == CollectiveKind::all_gather);
  CHECK(fit.groups[0].time.sure().value == Approx(3));
  CHECK((fit.links.groups == 4 && fit.links.compared == 4));
  CHECK(fit.links.furthest == Approx(2));
}

TEST_CASE("what runs beside a group's collectives is no slow link of it") {
  const auto gathers = [](std::int64_t last) {
    FitRanks ranks(8);
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      ranks.rank(rank);
      for (std::int32_t i = 0; i < 4; ++i) {
        const bool disturbed = rank / 2 == 3 && (i < 3 || last == 0);
        ranks.gather(rank / 2, i, disturbed ? 130 : rank / 2 == 3 ? last : 100);
        if (disturbed) ranks.beside(100);
      }
    }
    return ranks.fit();
  };
  // Alone each would take 30 to 130 us: 0.3 to 1.3 times the others' 100.
  const RanksFit hidden = gathers(0);
  CHECK(hidden.groups.empty());
  CHECK(hidden.links.compared == 4);
  CHECK(hidden.links.furthest == Approx(0.3));
  // One ran alone, and says it.
  CHECK(gathers(100).links.furthest == Approx(0));
  const RanksFit slow = gathers(300);
  REQUIRE(slow.groups.size() == 1);
  CHECK(slow.groups[0].ranks == std::vector<std::uint32_t>{6, 7});
  CHECK(slow.groups[0].time.sure().value == Approx(3));
  CHECK(slow.groups[0].time.is_narrow());
}

TEST_CASE("links of collectives that never ran alone are not known") {
  FitRanks ranks(8);
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    ranks.rank(rank);
    for (std::int32_t i = 0; i < 4; ++i) {
      ranks.gather(rank / 2, i, rank / 2 == 3 ? 300 : 100);
      ranks.beside(400);
    }
  }
  const RanksFit fit = ranks.fit();
  CHECK(fit.groups.empty());
  CHECK((fit.links.compared == 4 && fit.links.hidden == 4));
}

TEST_CASE("kernels are compared where nothing ran beside them on any rank") {
  FitRanks ranks(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ranks.rank(rank);
    for (int i = 0; i < 8; ++i) {
      const bool disturbed = rank != 2 && i % 4 != 0;  // the others wait in collectives for rank 2
      ranks.kernel("gemm", rank == 2 ? 120 : disturbed ? 170 : 100);
      if (disturbed) ranks.beside(100);
      ranks.kernel("add", rank == 2 ? 60 : 50);
    }
  }
  const RanksFit fit = ranks.fit();
  CHECK(fit.ranks[2].kernels.value == Approx(1.2));
  CHECK(fit.ranks[2].kernels.differs(kAlikeKernels));
}

TEST_CASE("one group has no other to hold its links against") {
  const ComparedLinks links = in_groups(4, 4, [](std::uint32_t) { return 300; }).fit().links;
  CHECK((links.groups == 1 && links.compared == 0));
  FitRanks part = in_groups(4, 4, [](std::uint32_t) { return 300; });
  part.run().settings.gpus = 8;
  CHECK(part.fit().links.groups == 0);
}

TEST_CASE("a group that is faster than the others has no slow links") {
  CHECK(in_groups(8, 2, [](std::uint32_t rank) { return rank / 2 == 3 ? 50 : 100; }).fit().groups.empty());
}

TEST_CASE("groups of two shapes are not held against one another") {
  // Two ranks of one node, and two of different ones.
  FitRanks ranks = in_groups(8, 2, [](std::uint32_t rank) { return rank / 2 == 1 ? 300 : 100; });
  ranks.run().settings.gpus = 3;
  ranks.run().settings.nodes = 3;
  ranks.run().ranks.push_back({8, {}, {}});
  ranks.kernel("gemm", 100);
  CHECK(ranks.fit().groups.empty());

  // Neighbours, and every other rank.
  FitRanks strided(8);
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    strided.rank(rank);
    strided.gather(rank < 4 ? rank / 2 : 2 + rank % 2, 0, rank < 4 ? 100 : 300);
  }
  CHECK(strided.fit().groups.empty());
}

TEST_CASE("a group of which a rank is not recorded is left out") {
  const auto shards_of_four = [](const std::vector<std::uint32_t>& recorded) {
    FitRanks ranks(12);
    ranks.run().settings.replicate = 3;
    for (const std::uint32_t rank : recorded) {
      ranks.rank(rank);
      for (std::int32_t i = 0; i < 4; ++i) ranks.gather(rank / 4, i, rank >= 8 ? 300 : 100);
    }
    return ranks.fit().groups.size();
  };
  CHECK(shards_of_four({0, 1, 4, 5, 8, 9}) == 0);  // 8 and 9 may have waited for 10
  CHECK(shards_of_four({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) == 1);
  CHECK(shards_of_four({0, 1, 2, 3, 4, 5, 8, 9, 10, 11}) == 1);
}

TEST_CASE("a collective of which a rank's part is not recorded is left out") {
  FitRanks ranks = in_groups(8, 2, [](std::uint32_t) { return 100; });
  for (std::int32_t i = 4; i < 24; ++i) ranks.gather(3, i, 900);  // rank 7's alone
  CHECK(ranks.fit().groups.empty());
}

TEST_CASE("a plan of a recording is told what its source rank does not have") {
  RanksFit fit = some(4, {.gpu = 2, .kernels = 1.25, .host_of = 1, .host = 2}).fit();
  REQUIRE(fit.source == 0U);
  auto told = told_ranks(fit);
  REQUIRE(told.size() == 2);
  CHECK(told[0].rank == 1);
  CHECK(told[0].host == Approx(2));
  CHECK(told[0].kernels == 1);
  CHECK(told[1].rank == 2);
  CHECK(told[1].kernels == Approx(1.25));

  fit.source = 2;  // its plan has every GPU 1.25 times slower
  told = told_ranks(fit);
  REQUIRE(told.size() == 3);
  for (const ToldRank& rank : told) CHECK(rank.kernels == Approx(0.8));
  CHECK(told[0].host == 1);
  CHECK(told[1].rank == 1);
  CHECK(told[1].host == Approx(2));
}

TEST_CASE("of a plan all ranks are told over the middle one") {
  FitRanks ranks = some(4, {.gpu = 0, .kernels = 1.25});
  ranks.run().info.kind = RunKind::planned;
  const RanksFit fit = ranks.fit();
  CHECK_FALSE(fit.source);
  const auto told = told_ranks(fit);
  REQUIRE(told.size() == 1);
  CHECK(told[0].rank == 0);
  CHECK(told[0].kernels == Approx(1.25));
}

TEST_CASE("a rank with kernels of its own is told by its own recording alone") {
  FitRanks ranks(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.rank(rank);
    for (int i = 0; i < 4; ++i) {
      ranks.kernel("gemm", rank == 1 ? 125 : 100);
      if (rank == 1) ranks.kernel("debug gemm", 300);
    }
  }
  RanksFit fit = ranks.fit();
  auto told = told_ranks(fit);
  REQUIRE(told.size() == 1);
  CHECK(told[0].rank == 1);
  CHECK(told[0].own_recording);
  CHECK(told[0].kernels == 1);

  fit.source = 1;  // its plan has those kernels on all ranks
  told = told_ranks(fit);
  REQUIRE(told.size() == 2);
  CHECK((told[0].own_recording && told[1].own_recording));
}

TEST_CASE("a plan that shows one rank of each group is not compared") {
  FitRanks ranks = some(4, {.kernels = 1.25});
  ranks.run().settings.gpus = 16;
  CHECK_FALSE(is_folded_plan(ranks.run()));
  CHECK(fit_ranks(ranks.run()));  // a recording of four of sixteen ranks
  ranks.run().info.kind = RunKind::planned;
  CHECK(is_folded_plan(ranks.run()));
  CHECK_FALSE(fit_ranks(ranks.run()));
}

TEST_CASE("one rank has nobody to be held against") {
  FitRanks ranks(8);
  ranks.rank(0);
  ranks.kernel("gemm", 100);
  CHECK_FALSE(fit_ranks(ranks.run()));
}

TEST_CASE("ranks without a whole step are not compared") {
  FitRanks ranks = some(2, {});
  ranks.run().ranks.push_back({2, {}, {}});
  CHECK_FALSE(fit_ranks(ranks.run()));
}

}  // namespace foreshard
